import pytest

from keras_attn.data.files import find_files
from keras_attn.errors import UserError


def test_files_are_found_by_path_glob_list_and_commas(tmp_path):
    for name in ("a.txt", "b.txt", "c,d.txt"):
        (tmp_path / name).write_text("x")
    a, b, c = (str(tmp_path / name) for name in ("a.txt", "b.txt", "c,d.txt"))
    assert find_files(a) == find_files([a, a]) == [a]
    assert find_files(f"{b}, {a},") == [b, a]
    assert find_files(str(tmp_path / "*.txt")) == [a, b, c]
    assert find_files(c) == find_files(tmp_path / "c,d.txt") == [c]
    assert find_files([tmp_path / "b.txt", str(tmp_path / "[ab]*")]) == [b, a]
    assert find_files(f"tfds:glue,{a}", tfds=True) == ["tfds:glue", a]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("missing.txt", "existing file.*missing.txt, which does not exist"),
        ("tfds:glue", "existing file"),
        ("*.md", "matches a file is needed"),
        ("", "which is a folder"),
        ([], "At least one"),
    ],
)
def test_a_source_without_files_is_refused(tmp_path, source, message):
    source = str(tmp_path / source) if isinstance(source, str) else source
    with pytest.raises(UserError, match=message):
        find_files(source)
