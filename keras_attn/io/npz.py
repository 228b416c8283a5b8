"""Reading of arrays from `.npz` files that may be damaged or malicious."""

import io
import math
import re
import struct
import zipfile
import zlib

import numpy as np
from numpy.lib import format as npy

from keras_attn.errors import UserError

# Errors of zipfile and NumPy for truncated or corrupted files. They raise OSError for content that
# is not a zip file; content in memory has no other OSError. NotImplementedError is a RuntimeError.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    KeyError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    OverflowError,
)
# NumPy evaluates a header as a Python literal, which can use any amount of memory. This pattern
# matches all headers that NumPy writes.
_HEADER = re.compile(
    r"\{'descr': '([^']{2,20})', 'fortran_order': (?:True|False), "
    r"'shape': \(((?:\d{1,19}(?:, ?\d{1,19}){0,31},?)?)\),? ?\}\s*",
    re.ASCII,
)
_PLAIN = re.compile(r"[<>|=][biufcUS]\d{1,9}")


def parse_npz(content, names=None):
    """Returns the arrays of a `.npz` file as a dict by name; nothing in it is executed.

    Args:
        content: The bytes of the file, or an open file in memory.
        names: Names of the arrays to read, or a function that selects them from
            `{name: (shape, dtype)}` of all arrays and may raise a `UserError`; None: all arrays.

    Raises:
        ValueError: If the content is damaged or lacks one of the names.
    """
    try:
        file = io.BytesIO(content) if isinstance(content, bytes) else content
        header = _header(file, len(content))
        chosen = names(header) if callable(names) else names or header
        with np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in chosen}
    except UserError:
        raise
    except _DAMAGE as error:
        raise ValueError(str(error) or type(error).__name__) from error


def _header(file, size):
    """Returns `{name: (shape, dtype)}` of all arrays, after checking their total size."""
    found, total = {}, 0
    with zipfile.ZipFile(file) as members:
        for member in members.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{member.filename} is compressed")
            total += member.file_size
            with members.open(member) as array:
                shape, dtype = _shape_and_dtype(array, member.filename)
                if array.tell() + math.prod(shape) * dtype.itemsize != member.file_size:
                    raise ValueError(f"{member.filename} is incomplete")
            found[member.filename.removesuffix(".npy")] = (shape, dtype.name)
    if total > size:
        raise ValueError(f"{size:,} of {total:,} bytes")
    file.seek(0)
    return found


def _shape_and_dtype(array, name):
    if npy.read_magic(array) != (1, 0):
        raise ValueError(f"{name} has an unsupported version")
    (size,) = struct.unpack("<H", array.read(2))
    header = _HEADER.fullmatch(array.read(size).decode("latin-1"))
    if header is None:
        raise ValueError(f"{name} has an invalid header")
    if header[1] == "|O":
        raise ValueError(
            "the file contains pickled Python objects, which are not supported; save "
            "numeric arrays instead: x.astype('float32')"
        )
    if not _PLAIN.fullmatch(header[1]):
        raise ValueError(f"{name} is of type {header[1]}")
    return tuple(map(int, re.findall(r"\d+", header[2]))), np.dtype(header[1])
