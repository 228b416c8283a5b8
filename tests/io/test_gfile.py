"""Local files and those of TensorFlow's file system in memory, `ram://`."""

import errno
import os

import pytest
import tensorflow as tf

from keras_attn.io import gfile


@pytest.fixture(params=["local", "remote"])
def folder(request, tmp_path):
    path = str(tmp_path) if request.param == "local" else f"ram:/{tmp_path}"
    gfile.makedirs(path)
    return path


def _written(folder, name, content=b"content"):
    path = f"{folder}/{name}"
    gfile.makedirs(os.path.dirname(path))
    with gfile.open_file(path, "wb") as file:
        file.write(content)
    return path


def test_files_have_the_bytes_that_were_written(folder):
    content = bytes(range(256)) * 10_000
    path = _written(folder, "a", content)
    assert gfile.stat(path).length == len(content)
    with gfile.open_file(path, "rb") as file:
        assert file.read(3) == content[:3]
        file.seek(1_000_000)
        assert file.tell() == 1_000_000
        assert file.read() == content[1_000_000:]


def test_text_is_utf8_and_keeps_its_line_ends(folder):
    path = f"{folder}/a"
    with gfile.open_file(path, "w") as file:
        file.write("é\r\n")
    with gfile.open_file(path, "a") as file:
        file.write("\n")
        file.flush()
        with gfile.open_file(path, "rb") as read:
            assert read.read() == b"\xc3\xa9\r\n\n"
    with gfile.open_file(path, "r") as file:
        assert file.read() == "é\r\n\n"


def test_folders_are_listed(folder):
    a, b = _written(folder, "x/a.txt"), _written(folder, "x/y/b.txt")
    assert sorted(name.rstrip("/") for name in gfile.listdir(f"{folder}/x")) == ["a.txt", "y"]
    assert gfile.glob(f"{folder}/x/*.txt") == [a]
    found = {f"{top.rstrip('/')}/{name}" for top, _, names in gfile.walk(folder) for name in names}
    assert found == {a, b}
    assert gfile.isdir(f"{folder}/x/y") and not gfile.isdir(a)
    assert gfile.exists(a) and not gfile.exists(f"{folder}/none")


def test_files_are_renamed_copied_and_removed(folder, tmp_path):
    a, b = _written(folder, "a", b"new"), _written(folder, "b", b"old")
    gfile.rename(a, b)
    assert not gfile.exists(a)
    gfile.copy(b, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"new"
    gfile.remove(b)
    assert not gfile.exists(b)
    _written(folder, "x/y/c")
    gfile.rmtree(f"{folder}/x")
    assert not gfile.exists(f"{folder}/x")


def test_a_missing_file_is_the_error_of_python(folder):
    missing = f"{folder}/none"
    for action in (gfile.stat, gfile.remove, lambda path: gfile.open_file(path, "rb").read()):
        with pytest.raises(FileNotFoundError) as error:
            action(missing)
        assert error.value.filename == missing


@pytest.mark.parametrize(
    "error, kind",
    [
        (tf.errors.PermissionDeniedError(None, None, "gs://b/x; Permission denied"), errno.EACCES),
        (tf.errors.UnavailableError(None, None, "gs://b/x; try again"), errno.ECONNABORTED),
        (tf.errors.DeadlineExceededError(None, None, "gs://b/x; slow"), errno.ETIMEDOUT),
        (tf.errors.ResourceExhaustedError(None, None, "No space left on device"), errno.ENOSPC),
        (tf.errors.FailedPreconditionError(None, None, "x/y; Not a directory"), errno.ENOTDIR),
        (tf.errors.FailedPreconditionError(None, None, "Could not resolve host"), errno.EIO),
        (tf.errors.InternalError(None, None, "no"), errno.EIO),
    ],
)
def test_errors_of_tensorflow_are_converted(error, kind):
    with pytest.raises(OSError) as raised, gfile.os_errors("gs://b/x"):
        raise error
    assert raised.value.errno == kind
    assert raised.value.strerror == error.message.removeprefix("gs://b/x; ")


def test_the_time_of_a_change_has_seconds(folder):
    # Plans of prepared text contain it.
    assert gfile.stat(_written(folder, "a")).mtime_nsec % 10**9 == 0


def test_the_status_equals_that_of_tensorflow(tmp_path):
    path = _written(str(tmp_path), "a")
    expected = tf.io.gfile.stat(path)
    assert gfile.stat(path) == (expected.length, expected.mtime_nsec)


def test_a_flushed_remote_file_is_flushed_by_its_file_system(monkeypatch):
    written = []

    class File:
        def __init__(self, path, mode):
            self.pending = b""

        def write(self, data):
            self.pending += data

        def flush(self):
            written.append(self.pending)
            self.pending = b""

        def close(self):
            pass

    monkeypatch.setattr(tf.io.gfile, "GFile", File)
    with gfile.open_file("ram://a", "a") as file:
        file.write("line\n")
        file.flush()
        assert b"".join(written) == b"line\n"


def test_a_name_that_is_too_long_does_not_exist(tmp_path):
    assert not gfile.exists(tmp_path / ("x" * 300))


def test_a_link_to_itself_is_an_error(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(link)
    with pytest.raises(OSError) as error:
        gfile.exists(link)
    assert error.value.errno == errno.ELOOP
