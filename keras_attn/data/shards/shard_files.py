"""Shards: tokenised documents in flat arrays, as large as fits in memory.

A prepared folder holds shard files and `index.json`, which is written last: a folder with an
index is complete.
"""

import hashlib
import io
import math
import os
import re
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.io.atomic_write import atomic_write
from keras_attn.io.files import read_bytes
from keras_attn.io.json_files import read_if_complete, write_json
from keras_attn.io.npz import parse_npz

FORMAT = 2
INDEX = "index.json"
# A folder that is prepared is not read through when the same text is prepared again.
_AGAIN = "remove the folder and prepare the text again"
_OURS = {"vocabulary_sha256", "lowercase"}


@dataclass(frozen=True)
class Shard:
    """Documents as spans of one array of ids; no sentence and no document is empty.

    Attributes:
        ids: int32, the word pieces of all sentences in a row, without special tokens.
        sentence_ends: int64 `(S,)`, where each sentence ends in `ids`, exclusive.
        document_ends: int64 `(D,)`, where each document ends in the sentences, exclusive.
    """

    ids: np.ndarray
    sentence_ends: np.ndarray
    document_ends: np.ndarray

    def __post_init__(self):
        for name, ends, size in (
            ("sentence", self.sentence_ends, len(self.ids)),
            ("document", self.document_ends, len(self.sentence_ends)),
        ):
            if np.any(np.diff(ends, prepend=0) <= 0) or (ends[-1] if len(ends) else 0) != size:
                raise ValueError(
                    f"A shard needs increasing {name}_ends that end with {size}. "
                    f"Received: {name}_ends={ends}"
                )


def write_shard(path, shard, **extra):
    """Writes a shard: ids as uint16 where they fit, so that the file is small.

    Args:
        path: The file; written under another name first, so that it is whole or not there.
        shard: A `Shard`.
        **extra: Further arrays to keep in the file.

    Returns:
        The SHA-256 of the file, as hexadecimal digits.
    """
    largest = int(shard.ids.max(initial=0))
    buffer = io.BytesIO()
    np.savez(
        buffer,
        ids=shard.ids.astype("uint16" if largest < 2**16 else "int32"),
        sentence_ends=_smallest(shard.sentence_ends),
        document_ends=_smallest(shard.document_ends),
        **extra,
    )
    content = buffer.getvalue()
    atomic_write(path, content)
    return hashlib.sha256(content).hexdigest()


def shard_reader(folder, index):
    """Function that reads the shard of a number, and checks that it is the one of the index.

    Args:
        folder: A prepared folder.
        index: What `read_index` returned.
    """
    def read(number):
        shard = index["shards"][number]
        return read_shard(tf.io.gfile.join(os.fspath(folder), shard["file"]), shard["sha256"])

    return read


def read_shard(path, sha256=None):
    """Reads a shard back.

    Args:
        path: The file.
        sha256: What `write_shard` returned; None: anything.

    Raises:
        UserError: If the file is missing, damaged or another.
    """
    arrays = read_arrays(path, "ids", "sentence_ends", "document_ends", sha256=sha256)
    try:
        return Shard(arrays[0].astype("int32"), *(ends.astype("int64") for ends in arrays[1:]))
    except ValueError as error:
        raise _damaged(path) from error


def read_arrays(path, *names, sha256=None):
    """Returns the named arrays of a shard file, as stored; see `read_shard`."""
    content = read_bytes(path, math.inf)
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise UserError(f"{path} is not the shard that {INDEX} describes: its SHA-256 differs; "
                        f"{_AGAIN}")
    try:
        arrays = parse_npz(content, names)
        return [arrays[name] for name in names]
    except ValueError as error:
        raise _damaged(path) from error


def write_index(folder, index):
    """Writes `index.json`: what the folder holds and that it is complete."""
    write_json(tf.io.gfile.join(os.fspath(folder), INDEX), {"format": FORMAT, **index})


def read_index(folder):
    """Reads `index.json`.

    Raises:
        UserError: If the folder is not a prepared one, or of another version of the format.
    """
    index = read_if_complete(tf.io.gfile.join(os.fspath(folder), INDEX))
    if not isinstance(index, dict) or "shards" not in index:
        raise UserError(
            f"The folder must be one that pretrain.prepare has finished. Received: {folder}"
        )
    if index.get("format") != FORMAT:
        raise UserError(
            f"The folder must have shards of format {FORMAT}; {_AGAIN}. "
            f"Received: {folder} of format {index.get('format')}"
        )
    if not index.keys() >= _OURS or not are_entries(index["shards"]):
        raise UserError(f"{tf.io.gfile.join(os.fspath(folder), INDEX)} is damaged; prepare the "
                        "text again")
    return index


def are_entries(shards):
    """Whether a value out of a JSON file is a list of entries of an index, as they were written."""
    return isinstance(shards, list) and all(map(_is_entry, shards))


def _is_entry(shard):
    return isinstance(shard, dict) and all(
        type(shard.get(name)) is int and 0 <= shard[name] < 2**63
        for name in ("documents", "sentences", "tokens")) and all(
        isinstance(shard.get(name), str) for name in ("file", "sha256")) and \
        re.fullmatch(r"\w[\w.-]*", shard["file"])


def is_prepared(folder):
    """Returns whether the folder holds a complete set of shards."""
    return tf.io.gfile.exists(tf.io.gfile.join(os.fspath(folder), INDEX))


def _smallest(ends):
    return ends.astype("int32" if len(ends) == 0 or ends[-1] < 2**31 else "int64")


def _damaged(path):
    return UserError(f"The shard must be whole; {_AGAIN}. Received: {path}, damaged")
