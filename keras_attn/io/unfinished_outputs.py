"""Temporary files of outputs; those of killed processes are removed."""

import contextlib
import glob
import os
import re
import uuid

from keras_attn.io.atomic_write import discard

# Another ending than that of `atomic_write`, whose files are not locked.
_ENDING = re.compile(r"\.[0-9a-f]{32}\.partial")
_MAX_ATTEMPTS = 10


@contextlib.contextmanager
def unfinished_output(path, folder=False):
    """Makes a file or folder beside `path` for the caller to write and then rename to `path`.

    Several processes may write the same output at once. Those that were killed left theirs behind,
    which is removed here: a lock, which ends with its process, protects what is still written.
    On a filesystem that several machines share, its locks must hold on all of them. A filesystem
    without locks and a remote one keep what was left.

    Args:
        path: The output.
        folder: Whether it is a folder.

    Yields:
        The other name; on a remote filesystem nothing is made there.
    """
    if "://" in path:
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
        with contextlib.suppress(OSError, ImportError):  # locked, or no locks here
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
