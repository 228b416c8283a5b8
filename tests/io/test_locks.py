import errno
import os
import signal
import time

import pytest

from keras_attn.errors import UserError
from keras_attn.io.locks import lock_file


def test_a_lock_is_held_until_it_is_closed(tmp_path):
    path = str(tmp_path / "lock")
    held = lock_file(path, "One lock is required. Received: two")
    with pytest.raises(UserError, match=f"^One lock is .*two, in use by process {os.getpid()} on "):
        lock_file(path, "One lock is required. Received: two")
    held.close()
    lock_file(path, "").close()


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    path = str(tmp_path / "lock")
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        try:
            with lock_file(path, ""):
                os.write(writer, b"held")
                time.sleep(100)
        finally:
            os._exit(1)
    os.close(writer)
    assert os.read(reader, 4) == b"held"
    with pytest.raises(UserError, match=f"process {process} "):
        lock_file(path, "")
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    lock_file(path, "").close()


def test_a_lock_file_removed_by_its_holder_is_locked_by_one_process(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    path, flock = str(tmp_path / "lock"), fcntl.flock
    held = [lock_file(path, "")]

    def between_opening_and_locking(*arguments):
        if held:
            os.remove(path)
            held.pop().close()
        flock(*arguments)

    monkeypatch.setattr(fcntl, "flock", between_opening_and_locking)
    ours = lock_file(path, "")
    with pytest.raises(UserError, match="in use"):
        lock_file(path, "")
    ours.close()


def test_a_filesystem_without_locks_has_none(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def without_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", without_locks)
    assert lock_file(str(tmp_path / "lock"), "") is None


def test_a_remote_folder_has_no_lock():
    assert lock_file("gs://bucket/lock", "") is None


def _link(path, target):
    path.symlink_to(target)


def _hard_link(path, target):
    path.hardlink_to(target)


def _folder(path, _):
    path.mkdir()


def _pipe(path, _):
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_link, "it is a symbolic link"),
        (_hard_link, "the file has other content"),
        (_folder, "it is not a regular file"),
        (_pipe, "it is not a regular file"),
    ],
)
def test_a_path_that_is_not_a_lock_file_is_an_error_and_is_not_changed(tmp_path, make, reason):
    precious = tmp_path / "precious"
    precious.write_bytes(b"content \xff\n")
    make(tmp_path / "lock", precious)
    with pytest.raises(UserError, match=f"Cannot use .*/lock as a lock file: ({reason})"):
        lock_file(str(tmp_path / "lock"), "")
    assert precious.read_bytes() == b"content \xff\n"


def test_a_dangling_link_creates_no_target(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="as a lock file"):
        lock_file(str(tmp_path / "lock"), "")
    assert not (tmp_path / "elsewhere").exists()
