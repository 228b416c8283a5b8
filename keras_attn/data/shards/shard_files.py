"""Shards: tokenized documents in flat arrays that fit in memory.

A prepared folder contains shard files and `index.json`, which is written last: a folder with an
index is complete.
"""

import hashlib
import io
import math
import os
import posixpath
import re
from dataclasses import dataclass

import numpy as np

from keras_attn.errors import UserError
from keras_attn.io import gfile
from keras_attn.io.atomic_write import atomic_write
from keras_attn.io.files import read_bytes
from keras_attn.io.json_files import read_if_complete, write_json
from keras_attn.io.npz import parse_npz

FORMAT = 2
INDEX = "index.json"
# The folder must be removed, as a complete folder is not verified when it is prepared again.
_ADVICE = "Remove the folder and prepare the text again"
_INDEX_KEYS = {"vocabulary_sha256", "lowercase"}


@dataclass(frozen=True)
class Shard:
    """Documents as spans of one array of ids; no sentence and no document is empty.

    Attributes:
        ids: int32, the tokens of all sentences, concatenated, without special tokens.
        sentence_ends: int64 `(S,)`, the exclusive end of each sentence in `ids`.
        document_ends: int64 `(D,)`, the exclusive end of each document in the sentences.
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
                    f"Shard: {name}_ends must be increasing and end with {size}. "
                    f"Received: {name}_ends={ends}"
                )


def write_shard(path, shard, **extra):
    """Writes a shard, with ids as uint16 if they fit, to keep the file small.

    Args:
        path: The file; written atomically.
        shard: A `Shard`.
        **extra: Additional arrays to store.

    Returns:
        The SHA-256 of the file as a hexadecimal string.
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
    """Returns a function that reads the shard of a number and verifies it against the index.

    Args:
        folder: A prepared folder.
        index: As returned by `read_index`.
    """

    def read(number):
        shard = index["shards"][number]
        return read_shard(posixpath.join(os.fspath(folder), shard["file"]), shard["sha256"])

    return read


def read_shard(path, sha256=None):
    """Reads a shard.

    Args:
        path: The file.
        sha256: As returned by `write_shard`; None: not verified.

    Raises:
        UserError: If the file is missing or damaged, or has another hash.
    """
    arrays = read_arrays(path, "ids", "sentence_ends", "document_ends", sha256=sha256)
    try:
        return Shard(arrays[0].astype("int32"), *(ends.astype("int64") for ends in arrays[1:]))
    except ValueError as error:
        raise _damaged(path) from error


def read_arrays(path, *names, sha256=None):
    """Returns arrays of a shard file as stored; see `read_shard`."""
    content = read_bytes(path, math.inf)
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise UserError(f"{path} is not the shard in {INDEX}: its SHA-256 differs. {_ADVICE}")
    try:
        arrays = parse_npz(content, names)
        return [arrays[name] for name in names]
    except ValueError as error:
        raise _damaged(path) from error


def write_index(folder, index):
    """Writes `index.json`: the contents of the folder, and a marker that it is complete."""
    write_json(posixpath.join(os.fspath(folder), INDEX), {"format": FORMAT, **index})


def read_index(folder):
    """Reads `index.json`.

    Raises:
        UserError: If the folder was not prepared completely, or has another format version.
    """
    path = posixpath.join(os.fspath(folder), INDEX)
    index = read_if_complete(path)
    if not isinstance(index, dict) or "shards" not in index:
        raise UserError(
            "The folder must be prepared completely by pretrain.prepare. "
            + (f"{_ADVICE}. " if gfile.exists(path) else "")
            + f"Received: {folder}"
        )
    if index.get("format") != FORMAT:
        raise UserError(
            f"{folder} has shards of format {index.get('format')}, but this version requires "
            f"format {FORMAT}. {_ADVICE}"
        )
    if not index.keys() >= _INDEX_KEYS or not are_entries(index["shards"]):
        raise UserError(f"{path} is damaged. {_ADVICE}")
    return index


def are_entries(shards):
    """Whether a JSON value is a valid list of shard entries of an index."""
    return isinstance(shards, list) and all(map(_is_entry, shards))


def _is_entry(shard):
    return (
        isinstance(shard, dict)
        and all(
            type(shard.get(name)) is int and 0 <= shard[name] < 2**63
            for name in ("documents", "sentences", "tokens")
        )
        and all(isinstance(shard.get(name), str) for name in ("file", "sha256"))
        and re.fullmatch(r"\w[\w.-]*", shard["file"])
    )


def is_prepared(folder):
    """Returns whether the folder contains a complete set of shards."""
    return gfile.exists(posixpath.join(os.fspath(folder), INDEX))


def _smallest(ends):
    return ends.astype("int32" if len(ends) == 0 or ends[-1] < 2**31 else "int64")


def _damaged(path):
    return UserError(f"The shard {path} is damaged. {_ADVICE}")
