"""Embedding: texts in, vectors out, in the same order."""

import contextlib
import itertools
import json
import os
import sys

import numpy as np
import tensorflow as tf

from keras_attn.data.tables import iterate_rows
from keras_attn.errors import UserError
from keras_attn.jobs.loading import load
from keras_attn.whole_files import whole

CHUNK = 4096  # rows held in memory


def embed_texts(folder, texts, output="-", *, pooling="mean", lowercase=None, batch_size=64):
    """Writes a vector for each text."""
    with _opened(output) as write:
        write(load(folder, lowercase).embed(texts, pooling, batch_size))


def embed_file(folder, source, column="text", output="-", *, pooling="mean", lowercase=None,
               batch_size=64):
    """Writes a vector for each row of a file, in constant memory.

    Args:
        folder: See `load`.
        source: TSV, CSV, JSONL or .txt file, or a glob.
        column: Of the text.
        output: File that ends in .npy or .jsonl; `-` for standard output, as JSONL.
        pooling, batch_size: See `Embedder.embed`.
        lowercase: See `load`.
    """
    rows = iterate_rows(source, text=column)
    with _opened(output) as write:
        model, texts = load(folder, lowercase), (row.text for row in rows)
        while chunk := list(itertools.islice(texts, CHUNK)):
            write(model.embed(chunk, pooling, batch_size))
    skipped = sum(rows.skipped.values())
    print(f"{write.rows:,} texts embedded, {skipped:,} skipped", file=sys.stderr)


@contextlib.contextmanager
def _opened(output):
    """Opens the output, before the work that it is to hold; gives a function of arrays."""
    if output == "-":
        yield _Lines(sys.stdout)
        return
    kinds = {".npy": _Array, ".jsonl": _Lines}
    kind = kinds.get(os.path.splitext(output)[1])
    if kind is None or tf.io.gfile.isdir(output):
        raise UserError(f"--output must be a file that ends in {' or '.join(kinds)}, or -. "
                        f"Received: {output}")
    with whole(output) as temporary, contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(open(temporary, "wb" if kind is _Array else "w"))
        except OSError as error:
            raise UserError("--output must be a file that can be written. "
                            f"Received: {output} ({error.strerror})") from error
        write = kind(file)
        yield write
        write.close()


class _Lines:
    """A list of numbers a line."""

    def __init__(self, file):
        self._file, self.rows = file, 0

    def __call__(self, vectors):
        self.rows += len(vectors)
        self._file.write("".join(json.dumps([round(float(x), 7) for x in row]) + "\n"
                                 for row in vectors))

    def close(self):
        pass


class _Array:
    """A .npy file; its header is written again once the number of rows is known."""

    def __init__(self, file):
        self._file, self.rows, self._width = file, 0, 0

    def __call__(self, vectors):
        if not self.rows:
            self._width = vectors.shape[1]
            self._header()
        self.rows += len(vectors)
        self._file.write(np.ascontiguousarray(vectors, "<f4").tobytes())

    def close(self):
        self._file.seek(0)
        self._header()

    def _header(self):
        # NumPy leaves room for the first axis to grow, so that both headers have one length.
        np.lib.format.write_array_header_1_0(self._file, {
            "descr": "<f4", "fortran_order": False, "shape": (self.rows, self._width)})
