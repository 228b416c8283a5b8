import bz2
import glob
import gzip
import lzma
import os

import pytest

from keras_attn.data.sources.files import find_files
from keras_attn.data.sources.tables import read_table
from keras_attn.data.sources.text_lines import read_lines
from keras_attn.errors import UserError
from keras_attn.io.paths import check_path


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


def test_globs_match_what_those_of_python_match(tmp_path, monkeypatch):
    names = [
        "x.txt",
        "a/x.txt",
        "a/b/x.txt",
        "a/b/c/x.txt",
        "a/b/y.md",
        "a/z[1].txt",
        ".hidden/x.txt",
        "a/.hidden.txt",
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "a/b/loop").symlink_to(tmp_path / "a", target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    for pattern in (
        "**/*.txt",
        "**/x.txt",
        "a/**/*.txt",
        "a/**",
        "a/**/b/**/*",
        "*/**/x.txt",
        "a/**/c/x.txt",
        "**/[xy].*",
        "**/.hidden.txt",
        "a/**/?.txt",
        "a/*.txt",
        "*/*.txt",
        "[.a]*/x.txt",
        ".h*/*.txt",
        "a/.*",
    ):
        expected = {
            path
            for path in glob.glob(pattern, recursive=True)
            if os.path.isfile(path) and "loop" not in path
        }
        for start in ("", f"{tmp_path}/"):
            found = [path.removeprefix("./") for path in find_files(start + pattern)]
            assert found == sorted(start + path for path in expected), pattern
    with pytest.raises(UserError, match="must be a path component of its own.*a/\\*\\*.txt"):
        find_files("a/**.txt")


@pytest.mark.parametrize(
    "path",
    [
        "https://example.org/train.csv",
        "s3://bucket/*.csv",
        "hf://datasets/x/train.parquet",
        "abfs://x/y,local.txt",
    ],
)
def test_a_file_system_that_cannot_be_reached_is_named(path):
    with pytest.raises(UserError, match="paths are not supported.*local path.*gs://") as error:
        find_files(path)
    assert path.partition(",")[0] in str(error.value)


def test_a_file_url_is_its_path(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path)
    expected = [str(tmp_path / "a.txt")]
    for name in ("a.txt", "*.txt", "**/*.txt"):
        assert find_files([f"file://{tmp_path}/{name}", tmp_path / name]) == expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("missing.txt", "The file .*missing.txt does not exist"),
        ("tfds:glue", "does not exist"),
        ("*.md", "matches no file"),
        ("", "is a folder. Pass its files"),
        ([], "At least one"),
    ],
)
def test_a_source_without_files_is_refused(tmp_path, source, message):
    source = str(tmp_path / source) if isinstance(source, str) else source
    with pytest.raises(UserError, match=message):
        find_files(source)


def test_the_files_of_a_folder_are_named_by_what_is_there(tmp_path):
    for name in ("a.v1.csv.gz", "b.csv.gz", "c.csv", "notes.md", ".hidden", "README"):
        (tmp_path / name).write_text("x")
    with pytest.raises(UserError, match="example as .*/\\*.csv.gz, or as .*/\\*\\*/\\*.csv.gz"):
        find_files(tmp_path)


def test_a_name_that_is_not_utf_8_is_an_error(tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path / "caf") + b"\xe9.txt")
    open(path, "w").close()
    for source in (
        path,
        str(tmp_path / "*.txt"),
        str(tmp_path / "**/*.txt"),
        str(tmp_path / "nothing"),
        f"{path}x",
    ):
        with pytest.raises(UserError, match="must be UTF-8|does not exist"):
            find_files(source)
    with pytest.raises(UserError, match=r"must be UTF-8. Rename.*workdir=.*caf\\udce9"):
        check_path(path, "workdir")


@pytest.mark.parametrize(
    "compress, message",
    [
        (gzip.compress, "gzip file. Rename it so that its name ends in .gz"),
        (bz2.compress, "bzip2 file. Decompress it"),
        (lzma.compress, "xz file. Decompress it"),
        (lambda data: b"PK\x03\x04" + data, "zip or office file"),
        (lambda data: b"PAR1\x15" + data, "Parquet file. Set data.format=parquet"),
    ],
)
def test_compressed_files_are_not_read_as_text_of_another_encoding(tmp_path, compress, message):
    (tmp_path / "a.csv").write_bytes(compress(b"text\na\n"))
    path = str(tmp_path / "a.csv")
    with pytest.raises(UserError, match=message):
        read_table(path, text="text")
    with pytest.raises(UserError, match=message):
        list(read_lines(path))
    (tmp_path / "b.txt").write_text("BZhang")
    assert list(read_lines(str(tmp_path / "b.txt"))) == [(0, "BZhang")]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_a_file_without_a_byte_order_mark_is_named(tmp_path, encoding):
    path = tmp_path / "a.txt"
    path.write_bytes("one line\n".encode(f"{encoding}-be"))
    with pytest.raises(UserError, match=r"(Cannot decode .*a.txt as utf|must be utf).*--encoding"):
        list(read_lines(str(path), encoding=encoding))
    with pytest.raises(UserError, match=r"(Cannot decode .*a.txt as utf|must be utf).*--encoding"):
        read_table(str(path), text="text", encoding=encoding)
