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
    if is_remote(path):
        with _remote(path) as files:
            found = files.stat(path)
            return Stat(found.length, found.mtime_nsec)
    found = os.stat(path)
    return Stat(found.st_size, int(found.st_mtime) * 10**9)


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
    if is_remote(path):
        with _remote(path) as files:
            return files.isdir(path)
    return os.path.isdir(path)


def listdir(path):
    if is_remote(path):
        with _remote(path) as files:
            return files.listdir(path)
    return os.listdir(path)


def glob(pattern):
    if is_remote(pattern):
        with _remote(pattern) as files:
            return files.glob(pattern)
    return local_glob.glob(pattern)


def walk(top):
    """Yields (folder, names of folders, names of files); does not follow links."""
    if is_remote(top):
        with _remote(top) as files:
            yield from files.walk(top)
    else:
        yield from os.walk(top)


def makedirs(path):
    if is_remote(path):
        with _remote(path) as files:
            files.makedirs(path)
    else:
        os.makedirs(path, exist_ok=True)


def remove(path):
    if is_remote(path):
        with _remote(path) as files:
            files.remove(path)
    else:
        os.remove(path)


def rmtree(path):
    if is_remote(path):
        with _remote(path) as files:
            files.rmtree(path)
    else:
        shutil.rmtree(path)


def rename(source, target):
    """Renames a file or folder within a file system; replaces an existing file."""
    if is_remote(source):
        with _remote(source) as files:
            files.rename(source, target, overwrite=True)
    else:
        os.replace(source, target)


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


@contextlib.contextmanager
def _remote(path):
    """Yields `tf.io.gfile`, whose errors are converted to OSErrors."""
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
        with _remote(path) as files:
            self._file = files.GFile(path, mode)

    def readable(self):
        return "r" in self._mode

    def writable(self):
        return not self.readable()

    def seekable(self):
        return self.readable()  # writes are appended

    def seek(self, offset, whence=io.SEEK_SET):
        with _remote(self._path):
            self._file.seek(offset, whence)
            return self._file.tell()

    def tell(self):
        with _remote(self._path):
            return self._file.tell()

    def readinto(self, buffer):
        with _remote(self._path):
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def write(self, data):
        with _remote(self._path):
            self._file.write(bytes(data))
        return len(data)

    def flush(self):
        super().flush()
        if self.writable():
            with _remote(self._path):
                self._file.flush()

    def close(self):
        if not self.closed:
            try:
                with _remote(self._path):
                    self._file.close()
            finally:
                super().close()
