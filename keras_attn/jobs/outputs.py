"""Files that commands write what they found to."""

import contextlib
import sys

import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.whole_files import whole


@contextlib.contextmanager
def opened(output, endings, binary=(), flag="--output"):
    """Opens the output, before the work that it is to hold; it is whole or not there.

    Args:
        output: A file, or `-` for standard output.
        endings: What its name may end in.
        binary: Those of them that hold bytes.
        flag: What errors call it.

    Raises:
        UserError: If it ends in something else or cannot be written.
    """
    if output == "-":
        yield sys.stdout
        return
    if not output.endswith(endings) or tf.io.gfile.isdir(output):
        raise UserError(f"{flag} must be a file that ends in {', '.join(endings)}, or -. "
                        f"Received: {output}")
    is_binary = output.endswith(tuple(binary))
    with whole(output) as temporary, \
            tf.io.gfile.GFile(temporary, "wb" if is_binary else "w") as file:
        try:
            file.write(b"" if is_binary else "")  # makes the file
        except tf.errors.OpError as error:
            raise UserError(f"{flag} must be a file that can be written. "
                            f"Received: {output} ({error.message})") from error
        yield file
