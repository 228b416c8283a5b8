"""A lock that one process at a time can hold."""

import os
import platform

from keras_attn.errors import UserError


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
        UserError: If another process holds it.
    """
    if "://" in path:
        return None
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    while True:
        file = open(path, "a+")  # noqa: SIM115 - held until it is closed
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            file.close()
            raise UserError(f"{needed}, in use by {holder}") from None
        except OSError:  # a filesystem without locks, such as some of NFS and Lustre
            file.close()
            return None
        if _is_at(file, path):
            break
        file.close()  # removed by its holder after it was opened here
    file.truncate(0)
    file.write(f"process {os.getpid()} on {platform.node()}")
    file.flush()
    return file


def _is_at(file, path):
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
