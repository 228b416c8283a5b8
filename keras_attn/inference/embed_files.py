"""Embedding of texts and files."""

import functools
import itertools
import json
import shutil
import sys
import tempfile

import numpy as np

from keras_attn.counts import counted
from keras_attn.data.sources.record_formats import import_pyarrow
from keras_attn.data.sources.tables import iterate_rows
from keras_attn.errors import UserError
from keras_attn.inference.cut_texts import warn_of_cut_texts
from keras_attn.inference.loading import load
from keras_attn.inference.outputs import opened
from keras_attn.tasks.embedder import Embedder

CHUNK = 4096  # rows in memory
BINARY = (".npy", ".parquet")
OUTPUTS = (*BINARY, ".jsonl")


def embed_texts(folder, texts, output="-", *, lowercase=None, **options):
    """Writes a vector for each text; see `embed_file`."""
    _embed(folder, iter(texts), output, lowercase, options)


def embed_file(
    folder,
    source,
    column="text",
    output="-",
    *,
    pooling=None,
    lowercase=None,
    batch_size=64,
    prompt=None,
    **reading,
):
    """Writes a vector for each row of a file, in constant memory.

    Args:
        folder: See `load`.
        source: TSV, CSV, JSONL, Parquet or .txt file, a glob, or `-` for standard input.
        column: Text column.
        output: .npy, .parquet (column `embedding`) or .jsonl file; `-` for standard output, as
            JSONL.
        pooling, batch_size, prompt: See `Embedder.embed`.
        lowercase: See `load`.
        reading: `format`, `encoding`, `on_bad_text`, `max_line`; see `iterate_rows`.
    """
    rows = iterate_rows(source, text=column, **reading)
    options = {"pooling": pooling, "batch_size": batch_size, "prompt": prompt}
    count = _embed(folder, (row.text for row in rows), output, lowercase, options, source)
    print(
        f"{counted(count, 'text')} embedded, {sum(rows.skipped.values()):,} skipped",
        file=sys.stderr,
    )


def _embed(folder, texts, output, lowercase, options, source=None):
    write = _writer(output)
    with opened(output, OUTPUTS, BINARY, inputs=(source,), workdir=folder) as file:
        model = load(folder, lowercase)
        if not isinstance(model, Embedder):
            raise UserError(
                "Embeddings require an encoder or a classifier. "
                f"Received: {folder}, a model for {model.task}"
            )
        count = write(file, _chunks(model, texts, options))
    warn_of_cut_texts(model)
    return count


def _chunks(model, texts, options):
    """Yields vectors of at most `CHUNK` texts; without a text an array `(0, D)`."""
    chunk = list(itertools.islice(texts, CHUNK))
    while True:
        yield model.embed(chunk, **options)
        chunk = list(itertools.islice(texts, CHUNK))
        if not chunk:
            return


def _writer(output):
    """Returns the function that writes chunks of vectors to the output file."""
    if output.endswith(".npy"):
        return _write_array
    if output.endswith(".parquet"):
        return functools.partial(_write_parquet, import_pyarrow(output))
    return _write_lines


def _write_lines(file, chunks):
    count = 0
    for vectors in chunks:
        count += len(vectors)
        file.write("".join(json.dumps([round(float(x), 7) for x in row]) + "\n" for row in vectors))
    return count


def _write_array(file, chunks):
    """Writes .npy; a local file stores the rows until their number, for the header, is known."""
    shape = (0, 0)
    with tempfile.TemporaryFile() as rows:
        for vectors in chunks:
            shape = (shape[0] + len(vectors), vectors.shape[1])
            rows.write(np.ascontiguousarray(vectors, "<f4").tobytes())
        rows.seek(0)
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        shutil.copyfileobj(rows, file, 1 << 22)
    return shape[0]


def _write_parquet(pyarrow, file, chunks):
    """Writes .parquet."""
    schema, count = pyarrow.schema([("embedding", pyarrow.list_(pyarrow.float32()))]), 0
    with pyarrow.parquet.ParquetWriter(file, schema) as writer:
        for vectors in chunks:
            count += len(vectors)
            ends = np.arange(len(vectors) + 1, dtype=np.int32) * vectors.shape[1]
            values = np.ravel(vectors).astype(np.float32, copy=False)
            column = pyarrow.ListArray.from_arrays(ends, pyarrow.array(values))
            writer.write_table(pyarrow.Table.from_arrays([column], schema=schema))
    return count
