import pytest

from keras_attn.errors import UserError
from keras_attn.whole_files import whole, write_whole


def test_what_cannot_be_written_whole_leaves_the_old_file(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    write_whole(str(tmp_path / "file"), b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    with pytest.raises(UserError, match="writable"):
        write_whole(str(tmp_path / "missing" / "file"), b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_that_fails_halfway_is_not_there(tmp_path):
    path = str(tmp_path / "file")
    with pytest.raises(ZeroDivisionError), whole(path) as unfinished, open(unfinished, "w") as file:
        file.write("half")
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())
