"""Atomic writes: a file is complete or does not exist, and links are not followed."""

import contextlib
import errno
import os
import shutil
import uuid

from keras_attn.errors import UserError, reason_of
from keras_attn.io import gfile


@contextlib.contextmanager
def atomic_path(path, unfinished=None):
    """Yields a temporary name to write to, which is renamed to `path` if no error was raised.

    Args:
        path: The file.
        unfinished: The temporary name; defaults to `path` with `.tmp`.
    """
    unfinished = unfinished or f"{path}.tmp"
    try:
        yield unfinished
        gfile.rename(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            _remove_file(unfinished)
        raise


def atomic_write(path, content, unfinished=None):
    """Writes a file that several processes may write concurrently.

    Args:
        path: The file.
        content: Bytes.
        unfinished: Temporary name; defaults to a unique name.

    Raises:
        UserError: If the file cannot be written (no space, no permission). The temporary file is
            removed.
    """
    # Unique also among machines, where process ids may be equal: an orphaned process may still
    # write the same file.
    unfinished = unfinished or f"{path}.{uuid.uuid4().hex}.unfinished"
    with reporting_failed_writes(path), atomic_path(path, unfinished), open_new(unfinished) as file:
        file.write(content)


def open_new(path, binary=True):
    """Opens a new file for writing, and replaces an existing one.

    A symbolic or hard link is removed, and its target is not changed.

    Args:
        path: The file, on any filesystem of `gfile`.
        binary: Whether to write bytes; otherwise text, as UTF-8.
    """
    if gfile.is_remote(path):
        return gfile.open_file(path, "wb" if binary else "w")
    _remove_file(path)
    # "x" (O_EXCL) fails if the name exists, also as a link.
    return open(path, "xb") if binary else open(path, "x", encoding="utf-8", newline="")


def open_no_follow(path, mode):
    """Opens a local text file; raises an OSError if it is a symbolic link."""

    def opener(name, flags):
        return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)

    return open(path, mode, encoding="utf-8", errors="replace", newline="", opener=opener)


def discard(path):
    """Removes a file, a folder with its content, or a symbolic link, if it exists."""
    if gfile.is_remote(path):
        if gfile.exists(path):
            (gfile.rmtree if gfile.isdir(path) else gfile.remove)(path)
    elif os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        _remove_file(path)


@contextlib.contextmanager
def temporary_folder(path):
    """Creates a local folder, replacing that of a killed process, and removes it at the end."""
    discard(path)
    os.mkdir(path)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _remove_file(path):
    if gfile.is_remote(path):
        gfile.remove(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)


@contextlib.contextmanager
def reporting_failed_writes(path):
    """Converts filesystem errors to a `UserError` that names the file and, if full, the disk."""
    try:
        yield
    except OSError as error:
        raise UserError(_write_error(path, error)) from error


def _write_error(path, error):
    reason = reason_of(error)
    if error.errno not in (errno.ENOSPC, errno.EDQUOT) and "No space left" not in reason:
        return f"Cannot write {path}: {reason}"
    # The full disk may also be that of temporary files.
    disk = _disk_of(getattr(error, "filename", None) or path)
    return (
        f"Cannot write {path}: {reason}{disk}. Free disk space and run the command "
        "again; files saved before are complete"
    )


def _disk_of(path):
    """Describes the mount point and the free space of the disk of a path; "" if unknown."""
    if gfile.is_remote(path):
        return ""
    folder = os.path.abspath(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    free = shutil.disk_usage(folder).free
    while not os.path.ismount(folder):
        folder = os.path.dirname(folder)
    return f" (only {free / 1e6:,.1f} MB free on the disk mounted at {folder})"
