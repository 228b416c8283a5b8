"""Arrays out of `.npz` files that may be damaged."""

import io
import zipfile
import zlib

import numpy as np

# What a file cut off or with a wrong bit raises in zipfile and NumPy. OSError is theirs for what
# is no zip file: from bytes in memory nothing else comes. NotImplementedError is a RuntimeError.
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, OSError, RuntimeError, ValueError)


def parse_npz(content, names=None):
    """Returns the arrays of a `.npz` file as a dict by name; nothing in it is executed.

    Args:
        content: The bytes of the file.
        names: The arrays to take; default all.

    Raises:
        ValueError: If the content is damaged or lacks one of the names.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in names or arrays.files}
    except _DAMAGE as error:
        raise ValueError(str(error) or type(error).__name__) from error
