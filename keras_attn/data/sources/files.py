"""Which files a source names, and what they hold."""

import collections
import fnmatch
import hashlib
import os
import re

import tensorflow as tf

from keras_attn.data.sources.streams import is_stream, local_copy
from keras_attn.errors import UserError, first_line
from keras_attn.io.paths import check_path, scheme_of

_MAGIC = re.compile(r"[*?[]")


def find_files(source, tfds=False):
    """Returns the files of a source.

    Args:
        source: A path, a glob, several with commas between them, or a sequence of those. `**` in
            a glob stands for any number of folders, but for hidden ones and links to folders. `-`
            is standard input; of it and of other streams, such as named pipes, the path is that of
            a copy: see `streams.local_copy`.
        tfds: Whether `tfds:NAME` may stand among them; it is kept as it is.

    `file://` before an absolute path is dropped.

    Returns:
        List of paths in the order given, sorted within a glob, each once.

    Raises:
        UserError: If one of them is missing, is a folder, matches nothing, or is of a file system
            that cannot be reached.
    """
    if isinstance(source, (str, os.PathLike)):
        source = os.fspath(source)
        source = [source] if _exists(source) else source.split(",")
    files = []
    for pattern in (_local(os.fspath(item).strip()) for item in source or ()):
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


def _local(path):
    """The path that a `file://` URL names, so that each file has one name; others as they are."""
    return path.removeprefix("file://") if path.startswith("file:///") else path


def _exists(path):
    check_path(path)
    try:
        return tf.io.gfile.exists(path)
    except tf.errors.OpError as error:
        raise UserError(f"Cannot reach {path}: {first_line(error)}") from error


def _matches(pattern):
    if is_stream(pattern):
        return [local_copy(pattern)]
    exists = _exists(pattern)
    if tf.io.gfile.isdir(pattern):
        example = "*" + _usual_ending(pattern)
        raise UserError(f"Files are needed, for example {tf.io.gfile.join(pattern, example)}, or "
                        f"{tf.io.gfile.join(pattern, '**', example)} for those in its subfolders, "
                        f"too. Received: {pattern}, which is a folder")
    if exists:
        return [pattern]
    if not _MAGIC.search(pattern):
        raise UserError(f"An existing file is needed. Received: {pattern}, which does not exist")
    try:
        found = list((_glob_recursive if "**" in pattern else tf.io.gfile.glob)(pattern))
    except UnicodeDecodeError as error:  # TensorFlow's, for a name in the folder
        check_path(os.fsdecode(error.object))
        raise
    for path in found:
        check_path(path)
    found = sorted(path for path in found if not tf.io.gfile.isdir(path))
    if not found:
        raise UserError(f"A pattern that matches a file is needed. Received: {pattern}")
    return found


def _usual_ending(folder):
    """The ending of most files of a folder, such as `.csv.gz`; `.txt` if they have none."""
    endings = collections.Counter()
    for name in tf.io.gfile.listdir(folder):
        stem = name.removesuffix(".gz")
        if ending := os.path.splitext(stem)[1]:
            endings[ending + name[len(stem):]] += 1
    return max(endings, key=endings.get, default=".txt")


def _glob_recursive(pattern):
    """Paths below a folder that match a glob with `**`."""
    parts = pattern.split("/")
    if any("**" in part and part != "**" for part in parts):
        raise UserError("** stands for whole folders, as in texts/**/*.txt. "
                        f"Received: {pattern}")
    plain = next(number for number, part in enumerate(parts) if _MAGIC.search(part))
    start, wanted = "".join(f"{part}/" for part in parts[:plain]), parts[plain:]
    if wanted[-1] == "**":
        wanted.append("*")
    walk = tf.io.gfile.walk if scheme_of(pattern) else os.walk  # which follows no links
    for folder, _, names in walk(start or "."):
        below = [part for part in folder[len(start or "."):].split("/") if part]
        for name in names:
            if _fits([*below, name], wanted):
                yield start + "/".join([*below, name])


def _fits(names, patterns):
    """Whether the names of a path fit the parts of a glob; hidden ones must be named."""
    if not names or not patterns:
        return not names and not patterns
    name, (pattern, *rest) = names[0], patterns
    if pattern == "**":
        return _fits(names, rest) or (name[0] != "." and _fits(names[1:], patterns))
    hidden = name[0] == "." != pattern[0]
    return not hidden and fnmatch.fnmatchcase(name, pattern) and _fits(names[1:], rest)
