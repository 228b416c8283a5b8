"""Temporary files of outputs, and removal of those of killed processes."""

import contextlib
import glob
import os
import re
import uuid

from keras_attn.io import gfile
from keras_attn.io.atomic_write import discard

# Differs from the ending of `atomic_write`, whose files are not locked.
_ENDING = re.compile(r"\.[0-9a-f]{32}\.partial")
_MAX_ATTEMPTS = 10


@contextlib.contextmanager
def unfinished_output(path, folder=False):
    """Creates a temporary file or folder beside `path`, which the caller renames to `path`.

    Several processes may write the same output concurrently, each with its own locked file. Files
    of killed processes are not locked and are removed here, except on remote filesystems and on
    those without locks. On a filesystem shared by several machines, locks must be shared too.

    Args:
        path: The output.
        folder: Whether the output is a folder.

    Yields:
        The temporary name; on a remote filesystem it does not exist yet.
    """
    if gfile.is_remote(path):
        yield _new_name(path)
        return
    _remove_abandoned(path)
    made, lock = _make_locked(path, folder)
    try:
        yield made
    finally:
        if lock is not None:
            os.close(lock)


def _new_name(path):
    return f"{path}.{uuid.uuid4().hex}.partial"


def _remove_abandoned(path):
    for found in glob.glob(f"{glob.escape(path)}.*.partial"):
        if not _ENDING.fullmatch(found[len(path) :]):
            continue
        with contextlib.suppress(OSError, ImportError):  # locked, or locks are not supported
            lock = _lock(found)
            try:
                discard(found)
            finally:
                os.close(lock)


def _make_locked(path, folder):
    """Returns the name of a new file or folder, and its lock or None."""
    for attempt in range(_MAX_ATTEMPTS):
        made = _new_name(path)
        if folder:
            os.makedirs(made)
        else:
            open(made, "xb").close()
        try:
            lock = _lock(made)
        except (BlockingIOError, FileNotFoundError):  # another process is removing it
            if attempt == _MAX_ATTEMPTS - 1:
                raise
            continue
        except (OSError, ImportError):
            return made, None
        if os.path.exists(made):
            return made, lock
        os.close(lock)
    raise FileNotFoundError(made)


def _lock(path):
    """Locks a file or folder; returns its descriptor, which holds the lock while it is open."""
    import fcntl  # not on Windows

    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
