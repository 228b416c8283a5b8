"""Reading of small files, also of untrusted ones."""

import os
import stat

from keras_attn.errors import UserError, reason_of
from keras_attn.io import gfile

# The tokenizer.json of a vocabulary of a million tokens is smaller.
LARGEST = 100_000_000


def read_bytes(path, largest=LARGEST):
    """Returns the content of a file.

    Args:
        path: The file, on any filesystem of `gfile`.
        largest: Maximum size in bytes.

    Raises:
        UserError: If the file does not exist, is not a regular file, cannot be read or is too
            large.
    """
    path = os.fspath(path)
    try:
        size = gfile.stat(path).length
        check_regular(path)
        if size > largest:
            raise UserError(
                f"Cannot read {path}: the file has {size:,} bytes, more than the maximum of "
                f"{largest:,}"
            )
        with gfile.open_file(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise unreadable(path, error) from error


def check_regular(path):
    """Raises a `UserError` for a folder, a pipe or a device; opening a pipe would block."""
    try:
        regular = gfile.is_remote(path) or stat.S_ISREG(os.stat(path).st_mode)
    except OSError as error:
        raise unreadable(path, error) from error
    if not regular:
        raise UserError(f"Cannot read {path}: it is not a regular file")


def exists(path):
    """Returns whether a file or a folder of this name exists.

    Raises:
        UserError: If this cannot be determined: without permission for its folder, or for a
            symbolic link to itself.
    """
    try:
        return gfile.exists(path)
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path, error):
    """Returns the `UserError` for a filesystem error when reading a file."""
    return UserError(f"Cannot read {path}: {reason_of(error)}")
