"""Whole small files, of unknown origin too."""

import os
import stat

import tensorflow as tf

from keras_attn.errors import UserError

# A tokenizer.json of a million pieces has less.
LARGEST = 100_000_000


def read_bytes(path, largest=LARGEST):
    """Returns the content of a file.

    Args:
        path: The file; any filesystem of `tf.io.gfile`.
        largest: Bytes that it may have.

    Raises:
        UserError: If it does not exist, is no regular file, cannot be read or is larger.
    """
    path = os.fspath(path)
    try:
        size = tf.io.gfile.stat(path).length
        check_regular(path)
        if size > largest:
            raise UserError(
                f"Cannot read {path}: a file of at most {largest:,} bytes is needed, "
                f"this one has {size:,}"
            )
        with tf.io.gfile.GFile(path, "rb") as file:
            return file.read()
    except (OSError, tf.errors.OpError) as error:
        raise unreadable(path, error) from error


def check_regular(path):
    """Raises a `UserError` for a folder, a pipe or a device; opening a pipe would block."""
    try:
        regular = "://" in path or stat.S_ISREG(os.stat(path).st_mode)
    except OSError as error:
        raise unreadable(path, error) from error
    if not regular:
        raise UserError(f"Cannot read {path}: it is not a regular file")


def exists(path):
    """Whether there is a file or a folder of this name.

    Raises:
        UserError: If that cannot be found out: without permission for its folder, or for a
            symbolic link to itself.
    """
    try:
        tf.io.gfile.stat(path)
    except (tf.errors.NotFoundError, tf.errors.FailedPreconditionError):  # a file on its way
        return False
    except tf.errors.OpError as error:
        raise unreadable(path, error) from error
    return True


def unreadable(path, error):
    """The `UserError` for a file that an error of the filesystem keeps from being read."""
    reason = getattr(error, "strerror", None) or error.message.rpartition("; ")[2]
    return UserError(f"Cannot read {path}: {reason}")
