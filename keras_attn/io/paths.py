"""Checks of paths."""

import os
import re

from keras_attn.errors import UserError
from keras_attn.io import gfile

_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*)://")


def scheme_of(path):
    """Returns the scheme of `SCHEME://…`; None for a path without a scheme."""
    found = _SCHEME.match(os.fspath(path))
    return found and found[1]


def check_path(path, name=None):
    """Raises a `UserError` if TensorFlow cannot open paths like this one.

    Paths of unknown file systems and paths that are not UTF-8 are not supported.

    Args:
        path: A path.
        name: Name of the flag or argument, for the message.
    """
    given = f"{name}=" if name else ""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        raise UserError(
            "Names of files and folders must be UTF-8. Rename the file or folder. "
            f"Received: {given}{path!r}"
        ) from None
    scheme = scheme_of(path)
    if scheme is None:
        return

    known = gfile.schemes()
    if scheme in known:
        return
    if not known:
        raise UserError(
            f"{scheme}:// paths require TensorFlow, which is not installed. Use local paths. "
            f"Received: {given}{path}"
        )
    remote = ", ".join(f"{one}://" for one in sorted(known) if one not in ("", "file", "ram"))
    raise UserError(
        f"{scheme}:// paths are not supported. Download the files and use their local "
        f"path; supported file systems: {remote}. "
        f"Received: {given}{path}"
    )
