"""A lock that one process at a time can hold."""

import errno
import os
import platform
import re

from keras_attn.errors import UserError
from keras_attn.io.atomic_write import open_no_follow

# Of a link, a folder, a socket; that of a pipe has no number.
_NO_FILE = errno.ELOOP, errno.EISDIR, errno.ENXIO, None
_HOLDER = r"process \d+ on [^\n]*"  # what its holder writes to the file
_MOST = 1000  # characters of that


def lock_file(path, needed):
    """Locks a file until what is returned is closed or this process ends, however it ends.

    The kernel releases the lock of a killed process, so it never goes stale. Filesystems
    without such locks are not guarded.

    Args:
        path: The file; made if it is not there. Its holder may remove it.
        needed: What the error says.

    Returns:
        The open file; None where there is no lock.

    Raises:
        UserError: If another process holds it, or something else has its name: a symbolic link, a
            folder, a file with other content. Nothing of that is changed.
    """
    if "://" in path:
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
            raise UserError(f"{needed}, in use by {holder}") from None
        except OSError:  # a filesystem without locks, such as some of NFS and Lustre
            file.close()
            return None
        if _is_at(file, path):
            break
        file.close()  # removed by its holder after it was opened here
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
