"""Which paths can be read and written."""

import os
import re

from keras_attn.errors import UserError

_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*)://")


def scheme_of(path):
    """The scheme of `SCHEME://…`; None of a path without one."""
    found = _SCHEME.match(os.fspath(path))
    return found and found[1]


def check_scheme(path, name=None):
    """Raises a `UserError` for a path of a file system that TensorFlow cannot reach here.

    Args:
        path: A path.
        name: The flag or argument that it was given for.
    """
    import tensorflow as tf

    scheme, known = scheme_of(path), tf.io.gfile.get_registered_schemes()
    if scheme is None or scheme in known:
        return
    remote = ", ".join(f"{one}://" for one in sorted(known) if one not in ("", "file", "ram"))
    raise UserError(f"{scheme}:// paths are not supported. Download the files and give their local "
                    f"path; other file systems that can be read and written here: {remote}. "
                    f"Received: {f'{name}=' if name else ''}{path}")
