"""Standard input, named pipes and process substitutions as input files.

A stream can be read only once, but the readers of tables and text detect the format first and read
files in parts. So a stream is copied to a temporary file, which is read instead.
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
# Errors of reading the stream, not of writing its copy.
_READ_ERRORS = errno.EIO, errno.EISDIR, errno.EBADF
_copies: dict[tuple, str] = {}  # identity of a stream -> path of its copy
_names: dict[str, str] = {}  # path of a copy -> name of its stream


def is_stream(path):
    """Returns whether a path is `-`, a pipe or a device, which can only be read once."""
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
                raise UserError(
                    f"Standard input is closed. Give the path of a file. Received: {path}"
                )
            return sys.stdin.buffer
        if found := _DESCRIPTOR.fullmatch(path):
            return os.fdopen(os.dup(int(found[1] or found[2])), "rb")
        return open(path, "rb")
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error


def local_copy(path):
    """Copies a stream to a temporary file and returns its path.

    Each stream is read once per process; later calls return the same file, which is removed when
    the process exits.

    Raises:
        UserError: If the stream cannot be read or the copy cannot be written. A partial copy is
            removed.
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
            raise UserError(
                f"Cannot copy {path} to a temporary file{place}: {reason}.{advice}"
            ) from error
        _copies[key], _names[copy] = copy, path
    return _copies[key]


def check_streams_differ(sources):
    """Checks that no two inputs are the same stream, as a stream can only be read once.

    Args:
        sources: Dictionary from the name of each input, such as "data.train", to an argument of
            `find_files` or None.

    Raises:
        UserError: If two inputs are the same stream.
    """
    seen = {}
    for name, source in sources.items():
        if isinstance(source, (str, os.PathLike)):
            source = os.fspath(source).split(",")
        for path in (os.fspath(item).strip() for item in source or ()):
            other, other_path = seen.setdefault(_identity(path), (name, path))
            both_standard = {path, other_path} <= set(_STANDARD_INPUTS)
            if other != name and (both_standard or _read_once(path) or _read_once(other_path)):
                raise UserError(
                    f"{other} and {name} are the same stream, which can only be read "
                    "once. Write it to a file, or use another file for one of them. "
                    f"Received: {other}={other_path}, {name}={path}"
                )


def _read_once(path):
    """Whether a path can only be read once. A file redirected to standard input can be reopened."""
    return is_stream(path) and not (path == STANDARD_INPUT and _is_redirected_file())


def _is_redirected_file():
    try:
        return stat.S_ISREG(os.fstat(sys.stdin.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):  # standard input may be closed
        return False


def display_name(path):
    """Returns the user's name of a file: the name of the stream if it is a copy, or the path
    itself.
    """
    return _names.get(path, path)


def _identity(path):
    """Returns one key for all names of a local file or stream; other paths are their own key."""
    try:
        found = os.fstat(sys.stdin.fileno()) if path in _STANDARD_INPUTS else os.stat(path)
    except (OSError, ValueError, AttributeError):  # not a file; standard input may be closed
        return STANDARD_INPUT if path in _STANDARD_INPUTS else path
    return found.st_dev, found.st_ino


@functools.cache
def _folder():
    """The temporary folder of all copies, removed when the process exits."""
    return tempfile.TemporaryDirectory(prefix="keras-attn-", ignore_cleanup_errors=True)
