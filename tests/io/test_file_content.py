"""Small files that cannot be read."""

import os

import pytest

from keras_attn import convert
from keras_attn.errors import UserError
from keras_attn.inference.loading import task_of_workdir
from keras_attn.io.files import exists, read_bytes
from keras_attn.io.json_files import read_if_complete


def test_unreadable_files_are_errors_of_one_line(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"1234")
    assert read_bytes(tmp_path / "file") == b"1234"
    for name, reason in {
        "folder": "it is not a regular file",
        "pipe": "it is not a regular file",
        "loop": "Too many levels of symbolic links",
        "nothing": "No such file or directory",
        "file/below": "Not a directory",
    }.items():
        with pytest.raises(UserError, match=f"^Cannot read .*/{name}: {reason}$"):
            read_bytes(str(tmp_path / name))
    with pytest.raises(UserError, match="the file has 4 bytes, more than the maximum of 3"):
        read_bytes(tmp_path / "file", largest=3)


def test_only_nonexistent_files_count_as_missing(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_bytes(b"{")
    assert exists(str(tmp_path)) and exists(str(tmp_path / "file"))
    for name in ("nothing", "file/below"):
        assert not exists(str(tmp_path / name)) and read_if_complete(str(tmp_path / name)) is None
    assert read_if_complete(str(tmp_path / "file")) is None
    with pytest.raises(UserError, match="Too many levels"):
        exists(str(tmp_path / "loop"))


@pytest.fixture
def nobody():
    """Runs a test as a user without permissions."""
    if os.getuid() == 0:
        os.setresuid(65534, 65534, 0)
        yield
        os.setresuid(0, 0, 0)
    else:
        yield


@pytest.mark.parametrize("read", [convert.read, convert.detect, task_of_workdir])
def test_a_folder_without_permission_is_reported(tmp_path, request, read):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    folder.chmod(0)
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:2]:  # pytest creates them for their owner only
        parent.chmod(0o755)
    request.getfixturevalue("nobody")
    try:
        with pytest.raises(UserError, match="^Cannot read .*/run/.*: Permission denied$"):
            read(str(folder))
    finally:
        if os.getuid():
            os.setresuid(0, 0, 0) if os.getresuid()[2] == 0 else folder.chmod(0o700)
