"""Temporary files of killed and of running processes."""

import errno
import fcntl
import os
import signal

import pytest

from keras_attn.io.unfinished_outputs import unfinished_output


@pytest.mark.parametrize("folder", [False, True])
def test_files_of_killed_processes_are_removed_and_those_of_running_ones_are_not(tmp_path, folder):
    path = str(tmp_path / "out[1]")  # not a glob pattern
    end, begin = os.pipe()
    child = os.fork()
    if not child:
        with unfinished_output(path, folder) as made:
            os.write(begin, made.encode())
            signal.pause()
    left = os.read(end, 1000).decode()
    others = [path, path + ".mine.partial", str(tmp_path / f"other.{'0' * 32}.partial")]
    for other in others:
        open(other, "x").close()
    with unfinished_output(path, folder) as made:
        assert os.path.isdir(made) == os.path.isdir(left) == folder
        assert made != left and os.path.exists(left)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with unfinished_output(path, folder) as second:
        assert not os.path.exists(left)
        assert not os.path.exists(made)  # not renamed, as after a kill
        assert sorted(map(str, tmp_path.iterdir())) == sorted([*others, second])


def test_links_are_not_removed(tmp_path):
    (tmp_path / "precious").mkdir()
    link = tmp_path / f"out.{'0' * 32}.partial"
    os.symlink(tmp_path / "precious", link)
    with unfinished_output(str(tmp_path / "out")):
        assert link.is_symlink() and (tmp_path / "precious").is_dir()


def test_nothing_is_removed_without_locks(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    left = tmp_path / f"out.{'0' * 32}.partial"
    left.touch()
    monkeypatch.setattr(fcntl, "flock", flock)
    with unfinished_output(str(tmp_path / "out")) as made:
        assert left.exists() and os.path.exists(made)


def test_a_file_that_is_removed_before_it_is_locked_is_created_again(tmp_path, monkeypatch):
    flock, removed = fcntl.flock, []

    def remove_first(descriptor, operation):
        if not removed:
            removed.extend(tmp_path.iterdir())
            removed[0].unlink()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with unfinished_output(str(tmp_path / "out")) as made:
        assert os.path.exists(made) and made != str(removed[0])
