"""Opens and lists files: local ones with Python, those of other file systems with TensorFlow.

The functions have the names and arguments of `tf.io.gfile`. All their errors are `OSError`s.
TensorFlow is imported only for the paths of other file systems.
"""

import contextlib
import errno
import glob as local_glob
import io
import os
import shutil
import typing

_BUFFER = 1 << 20
# Error codes of TensorFlow.
_ERRNO = {
    4: errno.ETIMEDOUT,  # deadline exceeded
    5: errno.ENOENT,  # not found
    6: errno.EEXIST,  # already exists
    7: errno.EACCES,  # permission denied
    10: errno.ECONNABORTED,  # aborted
    14: errno.ECONNABORTED,  # unavailable
}


class Stat(typing.NamedTuple):
    """Size in bytes and time of the last change in nanoseconds, rounded down to a second."""

    length: int
    mtime_nsec: int


def is_remote(path):
    """Returns whether a path has a scheme, such as `gs://`."""
    return "://" in os.fspath(path)


def stat(path):
    with _files(path) as files:
        found = files.stat(path)
    return Stat(found.length, found.mtime_nsec)


def exists(path):
    """Returns whether a file or folder exists; raises an OSError if this cannot be determined."""
    try:
        stat(path)
    except OSError as error:
        # A list of files, which may be the name of one file, can be too long for a name.
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
            return False
        raise
    return True


def isdir(path):
    with _files(path) as files:
        return files.isdir(path)


def listdir(path):
    with _files(path) as files:
        return files.listdir(path)


def glob(pattern):
    with _files(pattern) as files:
        return files.glob(pattern)


def walk(top):
    """Yields (folder, names of folders, names of files); does not follow links."""
    with _files(top) as files:
        yield from files.walk(top)


def makedirs(path):
    with _files(path) as files:
        files.makedirs(path)


def remove(path):
    with _files(path) as files:
        files.remove(path)


def rmtree(path):
    with _files(path) as files:
        files.rmtree(path)


def rename(source, target):
    """Renames a file or folder within a file system; replaces an existing file."""
    with _files(source) as files:
        files.rename(source, target, overwrite=True)


def copy(source, target):
    """Copies a file, also from one file system to another; replaces an existing file."""
    with open_file(source, "rb") as read, open_file(target, "wb") as written:
        shutil.copyfileobj(read, written, 1 << 22)


def open_file(path, mode):
    """Opens a file, as `open` does; text is UTF-8, and its line ends are not changed."""
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    if not is_remote(path):
        return open(path, mode, _BUFFER, **text)
    binary = _RemoteFile(path, mode.replace("b", "") + "b")
    buffered = io.BufferedReader if binary.readable() else _RemoteWriter
    file = buffered(binary, _BUFFER)
    return io.TextIOWrapper(file, **text) if text else file


def schemes():
    """Returns the schemes of the supported file systems."""
    try:
        import tensorflow as tf
    except ImportError:
        return []
    return tf.io.gfile.get_registered_schemes()


class _Local:
    """The functions of `tf.io.gfile` for local files."""

    isdir, listdir, glob, walk = os.path.isdir, os.listdir, local_glob.glob, os.walk
    remove, rmtree = os.remove, shutil.rmtree

    @staticmethod
    def stat(path):
        found = os.stat(path)
        return Stat(found.st_size, int(found.st_mtime) * 10**9)

    @staticmethod
    def makedirs(path):
        os.makedirs(path, exist_ok=True)

    @staticmethod
    def rename(source, target, overwrite):
        os.replace(source, target)


@contextlib.contextmanager
def _files(path):
    """Yields the functions for the file system of a path; their errors are OSErrors."""
    if not is_remote(path):
        yield _Local
        return
    try:
        import tensorflow as tf
    except ImportError as error:
        message = "only local paths are supported without TensorFlow"
        raise OSError(errno.EPROTONOSUPPORT, message, os.fspath(path)) from error

    with os_errors(path):
        yield tf.io.gfile


@contextlib.contextmanager
def os_errors(path):
    """Converts errors of TensorFlow, which has opened a path, to OSErrors."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        number = _ERRNO.get(error.error_code, errno.EIO)
        for one in (errno.ENOSPC, errno.ENOTDIR, errno.EISDIR, errno.ELOOP):
            if os.strerror(one) in error.message:
                number = one
        reason = error.message.removeprefix(f"{path}; ")
        raise OSError(number, reason, os.fspath(path)) from error


class _RemoteWriter(io.BufferedWriter):
    """Buffer of a remote file, which also flushes the file."""

    def flush(self):
        super().flush()
        self.raw.flush()


class _RemoteFile(io.RawIOBase):
    """A file of a remote file system as a raw stream."""

    def __init__(self, path, mode):
        self._path, self._mode = path, mode
        with _files(path) as files:
            self._file = files.GFile(path, mode)

    def readable(self):
        return "r" in self._mode

    def writable(self):
        return not self.readable()

    def seekable(self):
        return self.readable()  # writes are appended

    def seek(self, offset, whence=io.SEEK_SET):
        with os_errors(self._path):
            self._file.seek(offset, whence)
            return self._file.tell()

    def tell(self):
        with os_errors(self._path):
            return self._file.tell()

    def readinto(self, buffer):
        with os_errors(self._path):
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def write(self, data):
        with os_errors(self._path):
            self._file.write(bytes(data))
        return len(data)

    def flush(self):
        super().flush()
        if self.writable():
            with os_errors(self._path):
                self._file.flush()

    def close(self):
        if not self.closed:
            try:
                with os_errors(self._path):
                    self._file.close()
            finally:
                super().close()
