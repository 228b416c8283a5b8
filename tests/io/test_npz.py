"""Archives of arrays that may be damaged or malicious."""

import io
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from keras_attn.io.npz import parse_npz

ARRAYS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.array(1.5),
    "c": np.array(["é", "xyz"]),
    "d": np.zeros((0, 3), np.int64),
    "e": np.array([True, False]),
    "f": np.asfortranarray(np.arange(6, dtype=">f8").reshape(3, 2)),
    "g": np.arange(4, dtype=np.complex64),
}


def _archive(header, data=b""):
    """Returns a .npz file of one array with the given header."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as members:
        content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data
        members.writestr("a.npy", content)
    return file.getvalue()


def test_files_of_numpy_are_read():
    file = io.BytesIO()
    np.savez(file, **ARRAYS)
    found = parse_npz(file.getvalue())
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        np.testing.assert_array_equal(found[name], array)


def test_headers_of_other_writers_are_read():
    for header in (
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }  \n",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }\n",
    ):
        found = parse_npz(_archive(header, np.array([1, 2], "<f4").tobytes()))
        assert found["a"].ravel().tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 1: 2}\n",  # keys of two types
        b"{1: 2, 'a': 3}\n",
        b"-" * 9000 + b"1\n",
        b"(" * 9000,
        b"[" * 60_000,
        b"{" * 200 + b"}" * 200,
        b"'" + b"a" * 50_000 + b"' * 10**9",
        b"9**9**9**9\n",
        b"__import__('os')\n",
        b"",
        b"\xff" * 99,
        b"{'descr': '<f3', 'fortran_order': False, 'shape': (2,), }\n",
        b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }\n",
        b"{'descr': '<U999999999', 'fortran_order': False, 'shape': (2,), }\n",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,), }\n",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"9" * 5000 + b",), }\n",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"1, " * 40 + b"2), }\n",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }\n",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9999999999999999999), }\n",
        b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n",
    ],
    ids=lambda header: repr(header[:30]),
)
def test_a_malicious_header_is_an_error_and_uses_no_memory(header):
    content = _archive(header, b"\0" * 8)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="."):
            parse_npz(content)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
