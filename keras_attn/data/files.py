"""Which files a source names, and what they hold."""

import hashlib
import os

import tensorflow as tf

from keras_attn.data.streams import is_stream, local_copy
from keras_attn.errors import UserError


def find_files(source, tfds=False):
    """Returns the files of a source.

    Args:
        source: A path, a glob, several with commas between them, or a sequence of those. `-` is
            standard input; of it and of other streams, such as named pipes, the path is that of a
            copy: see `streams.local_copy`.
        tfds: Whether `tfds:NAME` may stand among them; it is kept as it is.

    Returns:
        List of paths in the order given, sorted within a glob, each once.

    Raises:
        UserError: If one of them is missing, is a folder, or matches nothing.
    """
    if isinstance(source, (str, os.PathLike)):
        source = os.fspath(source)
        source = [source] if tf.io.gfile.exists(source) else source.split(",")
    files = []
    for pattern in (os.fspath(item).strip() for item in source or ()):
        if pattern:
            files += [pattern] if tfds and pattern.startswith("tfds:") else _matches(pattern)
    if not files:
        raise UserError("At least one file is needed. Received: none")
    return list(dict.fromkeys(files))


def file_sha256(path):
    """SHA-256 of a file, read in pieces."""
    sha = hashlib.sha256()
    with tf.io.gfile.GFile(path, "rb") as file:
        while piece := file.read(1 << 22):
            sha.update(piece)
    return sha.hexdigest()


def _matches(pattern):
    if is_stream(pattern):
        return [local_copy(pattern)]
    if tf.io.gfile.isdir(pattern):
        raise UserError(f"Files are needed, for example {tf.io.gfile.join(pattern, '*.txt')}. "
                        f"Received: {pattern}, which is a folder")
    if tf.io.gfile.exists(pattern):
        return [pattern]
    if not any(character in pattern for character in "*?["):
        raise UserError(f"An existing file is needed. Received: {pattern}, which does not exist")
    found = sorted(path for path in tf.io.gfile.glob(pattern) if not tf.io.gfile.isdir(path))
    if not found:
        raise UserError(f"A pattern that matches a file is needed. Received: {pattern}")
    return found
