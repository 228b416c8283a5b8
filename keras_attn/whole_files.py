"""Files that are whole or not there."""

import contextlib
import uuid

import tensorflow as tf

from keras_attn.errors import UserError


@contextlib.contextmanager
def whole(path, unfinished=None):
    """Gives another name to write to, which becomes `path` when all went well.

    Args:
        path: The file.
        unfinished: The other name; default `path` with `.tmp`.
    """
    unfinished = unfinished or f"{path}.tmp"
    try:
        yield unfinished
        tf.io.gfile.rename(unfinished, path, overwrite=True)
    except BaseException:
        with contextlib.suppress(OSError, tf.errors.OpError):
            tf.io.gfile.remove(unfinished)
        raise


def write_whole(path, content, unfinished=None):
    """Writes the bytes of a file that several processes may write at once.

    Args:
        path: The file.
        content: Bytes.
        unfinished: Its name up to then; default one of this call.

    Raises:
        UserError: If it cannot be written (no space, no permission). Nothing stays behind.
    """
    # A name of this call: a process that a kill orphaned may be writing the same file still, on
    # another machine too, where process ids are the same.
    unfinished = unfinished or f"{path}.{uuid.uuid4().hex}.unfinished"
    try:
        with whole(path, unfinished), tf.io.gfile.GFile(unfinished, "wb") as file:
            file.write(content)
    except (OSError, tf.errors.OpError) as error:
        reason = getattr(error, "message", None) or error
        raise UserError(f"The folder must be writable, with free space. "
                        f"Received: {path} ({reason})") from error  # fmt: skip
