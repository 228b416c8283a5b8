import pytest

from keras_attn.errors import UserError
from keras_attn.whole_files import write_whole


def test_what_cannot_be_written_whole_leaves_the_old_file(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    write_whole(str(tmp_path / "file"), b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    with pytest.raises(UserError, match="writable"):
        write_whole(str(tmp_path / "missing" / "file"), b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
