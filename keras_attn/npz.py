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
        content: The bytes of the file, or an open file in memory.
        names: The arrays to take, or a function that chooses from the names of all; default all.

    Raises:
        ValueError: If the content is damaged or lacks one of the names.
    """
    try:
        file = io.BytesIO(content) if isinstance(content, bytes) else content
        with np.load(file, allow_pickle=False) as arrays:
            chosen = names(arrays.files) if callable(names) else names or arrays.files
            return {name: arrays[name] for name in chosen}
    except _DAMAGE as error:
        if "allow_pickle" in str(error):
            raise ValueError("it holds Python objects, whose pickles are never read; save plain "
                             "arrays where it was made: x.astype('float32')") from error
        raise ValueError(str(error) or type(error).__name__) from error
