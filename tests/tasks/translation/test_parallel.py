"""Parallel text: aligned files and tables, and their errors."""

import gzip

import pytest

from keras_attn.errors import UserError
from keras_attn.tasks.translation.parallel_text import read_parallel


def _files(folder, source, target):
    paths = []
    for name, lines in (("a.en", source), ("a.de", target)):
        (folder / name).write_bytes(b"".join(line + b"\n" for line in lines))
        paths.append(str(folder / name))
    return paths


def test_lines_stand_side_by_side(tmp_path):
    paths = _files(tmp_path, [b"one", b"two\r", " dreißig".encode()], [b"eins", b"zwei", b"30"])
    found = read_parallel(*paths)
    assert (found.sources, found.targets) == (["one", "two", " dreißig"], ["eins", "zwei", "30"])
    assert found.files == tuple(paths) and found.skipped == {} and len(found) == 3
    assert found.where(2) == f"{paths[0]}, line 3"
    assert found.take([2, 0]).targets == ["30", "eins"]


def test_packed_files_and_tables_are_read(tmp_path):
    with gzip.open(tmp_path / "a.en.gz", "wt") as file:
        file.write("one\ntwo")
    (tmp_path / "a.de").write_text("eins\nzwei\n")
    found = read_parallel(str(tmp_path / "a.en.gz"), str(tmp_path / "a.de"))
    assert (found.sources, found.targets) == (["one", "two"], ["eins", "zwei"])
    (tmp_path / "a.tsv").write_text("en\tde\none\teins\n")
    found = read_parallel(str(tmp_path / "a.tsv"), columns=("en", "de"))
    assert (found.sources, found.targets, found.where(0)) == (
        ["one"],
        ["eins"],
        f"{tmp_path / 'a.tsv'}, line 2",
    )


@pytest.mark.parametrize(
    "source, target, message",
    [
        ([b"a", b"b"], [b"x"], "number of lines.*a.en has 2, .*a.de has 1"),
        ([b"a"], [b"x", b"y", b"z"], "a.en has 1, .*a.de has 3"),
        ([b"a", b"  "], [b"x", b"y"], "no source at .*a.en, line 2"),
        ([b"a", b"b"], [b"", b"y"], "no target at .*a.de, line 1"),
        ([b"a", b"b"], [b"x", b"\xff"], "must be utf-8; set data.encoding.*a.de, line 2"),
    ],
)
def test_errors_name_the_line(tmp_path, source, target, message):
    with pytest.raises(UserError, match=message):
        read_parallel(*_files(tmp_path, source, target))


def test_invalid_lines_are_skipped_with_on_bad_text_skip(tmp_path):
    paths = _files(tmp_path, [b"a", b"", b"\xff", b"d"], [b"x", b"y", b"z", b"w"])
    found = read_parallel(*paths, on_bad_text="skip")
    assert (found.sources, found.targets) == (["a", "d"], ["x", "w"])
    assert found.skipped == {"empty": 1, "encoding": 1} and found.where(1).endswith("line 4")
    with pytest.raises(UserError, match="at least one sentence pair"):
        read_parallel(*_files(tmp_path, [b""], [b""]), on_bad_text="skip")


def test_files_come_in_pairs(tmp_path):
    paths = _files(tmp_path, [b"a"], [b"x"])
    with pytest.raises(UserError, match="2 and 1"):
        read_parallel(",".join([paths[0], paths[1]]), paths[1])


def test_a_missing_and_an_unused_target_are_errors(tmp_path):
    paths = _files(tmp_path, [b"a"], [b"x"])
    for name in (paths[0], "a.txt", "a.txt.gz"):
        with pytest.raises(UserError, match=f"requires a target.*{name}"):
            read_parallel(name)
    with pytest.raises(UserError, match="Leave target out.*tfds:wmt"):
        read_parallel("tfds:wmt", paths[1])
