"""Which paths can be read and written."""

import os
import re

from keras_attn.errors import UserError

_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*)://")


def scheme_of(path):
    """The scheme of `SCHEME://…`; None of a path without one."""
    found = _SCHEME.match(os.fspath(path))
    return found and found[1]


def check_path(path, name=None):
    """Raises a `UserError` for a path that TensorFlow cannot open here.

    That is one of an unknown file system, or one whose bytes are not UTF-8.

    Args:
        path: A path.
        name: The flag or argument that it was given for.
    """
    given = f"{name}=" if name else ""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        raise UserError(
            "Names of files and folders must be UTF-8; rename the file or folder. "
            f"Received: {given}{path!r}"
        ) from None
    scheme = scheme_of(path)
    if scheme is None:
        return
    import tensorflow as tf

    known = tf.io.gfile.get_registered_schemes()
    if scheme in known:
        return
    remote = ", ".join(f"{one}://" for one in sorted(known) if one not in ("", "file", "ram"))
    raise UserError(
        f"{scheme}:// paths are not supported. Download the files and give their local "
        f"path; other file systems that can be read and written here: {remote}. "
        f"Received: {given}{path}"
    )
