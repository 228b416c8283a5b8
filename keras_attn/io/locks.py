"""File locks."""

import errno
import os
import platform
import re

from keras_attn.errors import UserError
from keras_attn.io import gfile
from keras_attn.io.atomic_write import open_no_follow

# Error numbers for a link, a folder and a socket; the error of a pipe has none.
_NO_FILE = errno.ELOOP, errno.EISDIR, errno.ENXIO, None
_HOLDER = r"process \d+ on [^\n]*"  # content of a locked file
_MOST = 1000  # maximum number of characters of the content


def lock_file(path, requirement):
    """Locks a file until the returned file is closed or this process ends.

    The kernel releases the lock of a killed process. On filesystems without file locks nothing is
    locked.

    Args:
        path: The file, which is created if it does not exist. Its holder may remove it.
        requirement: Beginning of the error message if another process holds the lock.

    Returns:
        The open file; None if locks are not supported.

    Raises:
        UserError: If another process holds the lock, or the path is a symbolic link, a folder, or
            a file with other content, none of which is changed.
    """
    if gfile.is_remote(path):
        return None
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    while True:
        file = _opened(path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read(_MOST).strip() or "another process"
            file.close()
            raise UserError(f"{requirement}, in use by {holder}") from None
        except OSError:  # a filesystem without locks, such as some NFS and Lustre filesystems
            file.close()
            return None
        if _is_at(file, path):
            break
        file.close()  # the holder has removed the file after it was opened here
    file.seek(0)
    if not re.fullmatch(rf"({_HOLDER})?", file.read(_MOST)):
        file.close()
        raise _not_a_lock(path, "the file has other content")
    file.truncate(0)
    file.write(f"process {os.getpid()} on {platform.node()}")
    file.flush()
    return file


def _opened(path):
    try:
        return open_no_follow(path, "a+")
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        raise _not_a_lock(
            path,
            "it is a symbolic link" if error.errno == errno.ELOOP else "it is not a regular file",
        ) from error


def _not_a_lock(path, reason):
    return UserError(
        f"Cannot use {path} as a lock file: {reason}. Remove it, or choose another folder"
    )


def _is_at(file, path):
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
