"""Standard input, named pipes and process substitutions as files.

A stream can be read once, from its beginning, while readers of tables and text look for the
format first and read in parts. So a stream is copied to a temporary file, which is read in its
place.
"""

import functools
import os
import re
import shutil
import stat
import sys
import tempfile

from keras_attn.errors import UserError

STANDARD_INPUT = "-"
_DESCRIPTOR = re.compile(r"/dev/fd/(\d+)|/proc/self/fd/(\d+)")
_GZIP_MAGIC = b"\x1f\x8b"
_copies = {}  # path of the copy by stream
_names = {}  # name of the stream by path of the copy


def is_stream(path):
    """Returns whether a path is `-`, a pipe or a device, which can be read once only."""
    if path == STANDARD_INPUT:
        return True
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # missing, remote or not a path
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def open_stream(path):
    """Opens a stream for reading bytes.

    Raises:
        UserError: If it is closed or cannot be opened.
    """
    try:
        if path in (STANDARD_INPUT, "/dev/stdin"):
            if sys.stdin is None:
                raise UserError("Standard input is closed. Give the path of a file. "
                                f"Received: {path}")
            return sys.stdin.buffer
        if found := _DESCRIPTOR.fullmatch(path):
            return os.fdopen(os.dup(int(found[1] or found[2])), "rb")
        return open(path, "rb")
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error


def local_copy(path):
    """Returns the path of a temporary file with all that a stream holds.

    Each stream is read once in a process: a later call returns the same file, which is removed at
    the end of the process.

    Raises:
        UserError: If the stream cannot be read or the copy cannot be written.
    """
    key = _key(path)
    if key not in _copies:
        source = open_stream(path)
        first = source.read(len(_GZIP_MAGIC))
        name = {STANDARD_INPUT: "stdin"}.get(path, os.path.basename(path))
        if first == _GZIP_MAGIC and not name.lower().endswith(".gz"):
            name += ".gz"
        copy = os.path.join(tempfile.mkdtemp(dir=_folder().name), name)
        try:
            with open(copy, "wb") as file:
                file.write(first)
                shutil.copyfileobj(source, file, 1 << 20)
        except OSError as error:
            raise UserError(f"Cannot copy {path} to {copy}: {error.strerror}. Set TMPDIR to a "
                            "folder with enough space.") from error
        _copies[key], _names[copy] = copy, path
    return _copies[key]


def shown(path):
    """Returns what the user calls a file: the name of the stream that it is a copy of, or itself.
    """
    return _names.get(path, path)


def _key(path):
    """The same for all names of standard input."""
    standard = (STANDARD_INPUT, "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
    return STANDARD_INPUT if path in standard else path


@functools.cache
def _folder():
    """The folder of all copies, removed at the end of the process."""
    return tempfile.TemporaryDirectory(prefix="keras-attn-", ignore_cleanup_errors=True)
