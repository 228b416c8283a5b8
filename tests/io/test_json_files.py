"""Reading and writing of JSON files."""

import os

import pytest

from keras_attn.errors import UserError
from keras_attn.io.json_files import read_json, write_json


@pytest.mark.parametrize(
    "content, message",
    [
        (b'{"a": 1}  ', "more than the maximum of 9"),
        (b"{", "x.json must be JSON"),
        (b"\xff", "x.json must be JSON in UTF-8"),
        (None, "Cannot read .*x.json: No such file"),
    ],
)
def test_invalid_files_are_errors(tmp_path, content, message):
    path = tmp_path / "x.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_json(str(path), largest=9)


def test_a_file_below_the_maximum_size_is_read(tmp_path):
    (tmp_path / "x.json").write_text('{"a": 1}')
    assert read_json(str(tmp_path / "x.json"), largest=9) == {"a": 1}


def test_a_path_that_is_not_utf_8_is_written_and_read(tmp_path):
    value = {"command": [os.fsdecode(b"--config.data.train=caf\xe9.txt"), "é \u2028 \\"]}
    write_json(str(tmp_path / "a.json"), value)
    assert read_json(str(tmp_path / "a.json")) == value
