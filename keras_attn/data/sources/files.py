"""Finding the files of a source, and hashing files."""

import collections
import fnmatch
import hashlib
import os
import posixpath
import re

from keras_attn.data.sources.streams import is_stream, local_copy
from keras_attn.errors import UserError, reason_of
from keras_attn.io import gfile
from keras_attn.io.paths import check_path

_MAGIC = re.compile(r"[*?[]")


def find_files(source, tfds=False):
    """Returns the files of a source.

    Args:
        source: A path, a glob, several of them separated by commas, or a sequence of those. In a
            glob, `**` matches any number of folders, except hidden ones and links to folders. `-`
            is standard input. The paths of standard input and of other streams, such as named
            pipes, are those of temporary copies; see `streams.local_copy`.
        tfds: Whether the source may contain `tfds:NAME`, which is returned unchanged.

    The prefix `file://` of an absolute path is dropped.

    Returns:
        List of unique paths in the order given; the matches of a glob are sorted.

    Raises:
        UserError: If a path is missing or is a folder, a glob has no matches, or a file system
            cannot be reached.
    """
    if isinstance(source, (str, os.PathLike)):
        source = os.fspath(source)
        source = [source] if _exists(source) else source.split(",")
    files = []
    for pattern in (_local(os.fspath(item).strip()) for item in source or ()):
        if pattern:
            files += [pattern] if tfds and pattern.startswith("tfds:") else _matches(pattern)
    if not files:
        raise UserError("At least one file is required. Received: none")
    return list(dict.fromkeys(files))


def file_sha256(path):
    """Returns the SHA-256 of a file, which is read in chunks."""
    sha = hashlib.sha256()
    with gfile.open_file(path, "rb") as file:
        while chunk := file.read(1 << 22):
            sha.update(chunk)
    return sha.hexdigest()


def texts_sha256(groups, end=b""):
    """Returns the SHA-256 of groups of texts, such as columns, and of further bytes."""
    sha = hashlib.sha256()
    for texts in groups:
        for text in texts:
            sha.update(text.encode("utf-8", "surrogatepass") + b"\0")
        sha.update(b"\1")
    sha.update(end)
    return sha.hexdigest()


def _local(path):
    """Converts a `file://` URL to a path, so that each file has one name."""
    return path.removeprefix("file://") if path.startswith("file:///") else path


def _exists(path):
    check_path(path)
    try:
        return gfile.exists(path)
    except OSError as error:
        raise UserError(f"Cannot reach {path}: {reason_of(error)}") from error


def _matches(pattern):
    if is_stream(pattern):
        return [local_copy(pattern)]
    exists = _exists(pattern)
    if gfile.isdir(pattern):
        example = "*" + _common_extension(pattern)
        raise UserError(
            f"{pattern} is a folder. Pass its files, for example as "
            f"{posixpath.join(pattern, example)}, or as "
            f"{posixpath.join(pattern, '**', example)} to include subfolders"
        )
    if exists:
        return [pattern]
    if not _MAGIC.search(pattern):
        raise UserError(f"The file {pattern} does not exist")
    found = list((_glob_recursive if "**" in pattern else gfile.glob)(pattern))
    for path in found:
        check_path(path)
    found = sorted(
        path for path in found if not _is_hidden(path, pattern) and not gfile.isdir(path)
    )
    if not found:
        raise UserError(f"The pattern {pattern} matches no file")
    return found


def _is_hidden(path, pattern):
    """Whether a wildcard matches a leading dot, as in `.x.txt` and `*.txt`."""
    pairs = zip(reversed(path.split("/")), reversed(pattern.split("/")), strict=False)
    return "**" not in pattern and any(
        name.startswith(".") and _MAGIC.match(wanted) for name, wanted in pairs
    )


def _common_extension(folder):
    """Returns the most common extension in a folder, such as `.csv.gz`; `.txt` if there is none."""
    endings = collections.Counter()
    for name in gfile.listdir(folder):
        stem = name.removesuffix(".gz")
        if ending := os.path.splitext(stem)[1]:
            endings[ending + name[len(stem) :]] += 1
    return max(endings, key=endings.get, default=".txt")


def _glob_recursive(pattern):
    """Yields the paths that match a glob with `**`."""
    parts = pattern.split("/")
    if any("**" in part and part != "**" for part in parts):
        raise UserError(
            f"** must be a path component of its own, as in texts/**/*.txt. Received: {pattern}"
        )
    plain = next(number for number, part in enumerate(parts) if _MAGIC.search(part))
    start, wanted = "".join(f"{part}/" for part in parts[:plain]), parts[plain:]
    if wanted[-1] == "**":
        wanted.append("*")
    for folder, _, names in gfile.walk(start or "."):
        below = [part for part in folder[len(start or ".") :].split("/") if part]
        for name in names:
            if _matches_glob([*below, name], wanted):
                yield start + "/".join([*below, name])


def _matches_glob(names, patterns):
    """Whether path components match those of a glob; hidden names must match explicitly."""
    if not names or not patterns:
        return not names and not patterns
    name, (pattern, *rest) = names[0], patterns
    if pattern == "**":
        return _matches_glob(names, rest) or (name[0] != "." and _matches_glob(names[1:], patterns))
    hidden = name[0] == "." != pattern[0]
    return not hidden and fnmatch.fnmatchcase(name, pattern) and _matches_glob(names[1:], rest)
