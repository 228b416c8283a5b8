"""Standard input, named pipes and process substitutions as files.

A stream can be read once, from its beginning, while readers of tables and text look for the
format first and read in parts. So a stream is copied to a temporary file, which is read in its
place.
"""

import errno
import functools
import os
import re
import shutil
import stat
import sys
import tempfile

from keras_attn.errors import UserError

STANDARD_INPUT = "-"
_STANDARD_INPUTS = (STANDARD_INPUT, "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
_DESCRIPTOR = re.compile(r"/dev/fd/(\d+)|/proc/self/fd/(\d+)")
_GZIP_MAGIC = b"\x1f\x8b"
_READ_ERRORS = errno.EIO, errno.EISDIR, errno.EBADF  # of the stream, not of its copy
_copies: dict[tuple, str] = {}  # path of the copy by identity of the stream
_names: dict[str, str] = {}  # name of the stream by path of the copy


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
        UserError: If the stream cannot be read or the copy cannot be written. Nothing of it stays
            behind.
    """
    key = _identity(path)
    if key not in _copies:
        source = open_stream(path)
        name = {STANDARD_INPUT: "stdin"}.get(path, os.path.basename(path))
        folder = None
        try:
            folder = tempfile.mkdtemp(dir=_folder().name)
            first = source.read(len(_GZIP_MAGIC))
            if first == _GZIP_MAGIC and not name.lower().endswith(".gz"):
                name += ".gz"
            copy = os.path.join(folder, name)
            with open(copy, "wb") as file:
                file.write(first)
                shutil.copyfileobj(source, file, 1 << 20)
        except BaseException as error:
            if folder:
                shutil.rmtree(folder, ignore_errors=True)
            if not isinstance(error, OSError):
                raise
            place = f" in {os.path.dirname(folder)}" if folder else ""
            reason, advice = error.strerror or error, ""
            if error.errno not in _READ_ERRORS:
                advice = " Set TMPDIR to a folder with enough space."
            raise UserError(f"Cannot copy {path} to a temporary file{place}: {reason}.{advice}"
                            ) from error
        _copies[key], _names[copy] = copy, path
    return _copies[key]


def check_streams_differ(sources):
    """Checks that no two inputs are the same stream, which can be read once only.

    Args:
        sources: Dict from the name of each input, such as "data.train", to what `find_files`
            takes, or None.

    Raises:
        UserError: Names two inputs that are.
    """
    seen = {}
    for name, source in sources.items():
        if isinstance(source, (str, os.PathLike)):
            source = os.fspath(source).split(",")
        for path in (os.fspath(item).strip() for item in source or ()):
            other, other_path = seen.setdefault(_identity(path), (name, path))
            both_standard = {path, other_path} <= set(_STANDARD_INPUTS)
            if other != name and (both_standard or _read_once(path) or _read_once(other_path)):
                raise UserError(f"{other} and {name} are the same stream, which can be read once "
                                "only. Write it to a file, or give one of them another file. "
                                f"Received: {other}={other_path}, {name}={path}")


def _read_once(path):
    """Whether a second reader would find nothing; a file that is standard input has a path."""
    return is_stream(path) and not (path == STANDARD_INPUT and _is_redirected_file())


def _is_redirected_file():
    try:
        return stat.S_ISREG(os.fstat(sys.stdin.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):  # standard input may be closed
        return False


def shown(path):
    """Returns what the user calls a file: the name of the stream that it is a copy of, or itself.
    """
    return _names.get(path, path)


def _identity(path):
    """The same for all names of a file or stream that exists here; the path of others."""
    try:
        found = os.fstat(sys.stdin.fileno()) if path in _STANDARD_INPUTS else os.stat(path)
    except (OSError, ValueError, AttributeError):  # no file; standard input may be closed
        return STANDARD_INPUT if path in _STANDARD_INPUTS else path
    return found.st_dev, found.st_ino


@functools.cache
def _folder():
    """The folder of all copies, removed at the end of the process."""
    return tempfile.TemporaryDirectory(prefix="keras-attn-", ignore_cleanup_errors=True)
