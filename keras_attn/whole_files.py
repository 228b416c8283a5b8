"""Files that are whole or not there."""

import contextlib
import os

import tensorflow as tf

from keras_attn.errors import UserError


def write_whole(path, content):
    """Writes a file under another name, then renames it.

    Raises:
        UserError: If it cannot be written (no space, no permission). Nothing stays behind.
    """
    # A name of this process: one that a kill orphaned may be writing the same file still.
    unfinished = f"{path}.{os.getpid()}.unfinished"
    try:
        with tf.io.gfile.GFile(unfinished, "wb") as file:
            file.write(content)
        tf.io.gfile.rename(unfinished, path, overwrite=True)
    except (OSError, tf.errors.OpError) as error:
        with contextlib.suppress(OSError, tf.errors.OpError):
            tf.io.gfile.remove(unfinished)
        reason = getattr(error, "message", None) or error
        raise UserError(f"The folder must be writable, with free space. "
                        f"Received: {path} ({reason})") from error  # fmt: skip
