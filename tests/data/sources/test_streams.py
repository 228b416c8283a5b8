"""Standard input, pipes and process substitutions are read as the same file is."""

import functools
import gzip
import io
import os
import resource
import sys
import tempfile
import threading

import pytest

from keras_attn.data.sources import streams
from keras_attn.data.sources.files import find_files
from keras_attn.data.sources.tables import describe_location, iterate_rows
from keras_attn.defaults import finetuning_defaults, pretraining_defaults, translation_defaults
from keras_attn.errors import UserError
from keras_attn.runs.run_task import finetune, pretrain
from keras_attn.tasks.span_qa.examples import read_questions
from keras_attn.tasks.translation.parallel_text import read_parallel

TEXT = b"text,label\nfine,1\ndull,0\n"
ROWS = [("fine", "1"), ("dull", "0")]


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    monkeypatch.setattr(streams, "_copies", {})


def _stream(kind, tmp_path, monkeypatch, content=TEXT):
    """The path of a stream that holds some bytes."""
    if kind == "-":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        return "-"
    if kind == "descriptor":
        end, begin = os.pipe()
        os.write(begin, content)
        os.close(begin)
        return f"/dev/fd/{end}"
    path = tmp_path / "rows.csv"
    os.mkfifo(path)
    threading.Thread(target=path.write_bytes, args=(content,), daemon=True).start()
    return str(path)


@pytest.mark.parametrize("kind", ["-", "descriptor", "named"])
def test_a_stream_is_read_as_often_as_needed(kind, tmp_path, monkeypatch):
    path = _stream(kind, tmp_path, monkeypatch)
    assert streams.is_stream(path)
    for _ in range(2):
        rows = list(iterate_rows(path, text="text", label="label", format="csv"))
        assert [(row.text, row.label) for row in rows] == ROWS
    assert describe_location(rows[1].file, rows[1].line) == f"{path}, line 3"


@pytest.mark.parametrize(
    ("content", "format"),
    [
        (b"body\nx\n", "csv"),
        (b'"text"\t"b"\nx\ty\n', "tsv"),
        (b"a\nb\n", "parquet"),
        (b'[{"body": 1}]', "jsonl"),
        (b'[{"text": "a"', "jsonl"),
        (b"\x1f\x8bno gzip", "csv"),
    ],
)
def test_errors_name_the_stream_and_not_its_copy(content, format, tmp_path, monkeypatch):
    path = _stream("-", tmp_path, monkeypatch, content)
    with pytest.raises(UserError) as error:
        list(iterate_rows(path, text="text", format=format))
    assert "keras-attn-" not in str(error.value)


def test_errors_in_squad_name_the_stream(tmp_path, monkeypatch):
    path = _stream("-", tmp_path, monkeypatch, b'{"data": [{"paragraphs": 1}]}')
    with pytest.raises(UserError, match="Received: -, article 1"):
        read_questions(path)


def test_a_gzipped_stream_is_unzipped(tmp_path, monkeypatch):
    path = _stream("-", tmp_path, monkeypatch, gzip.compress(TEXT))
    rows = iterate_rows(path, text="text", label="label", format="csv")
    assert [(row.text, row.label) for row in rows] == ROWS


def test_the_format_of_standard_input_must_be_given(tmp_path, monkeypatch):
    path = _stream("-", tmp_path, monkeypatch)
    with pytest.raises(UserError, match="set data.format.*Received: '-'"):
        iterate_rows(path, text="text")


def test_a_closed_standard_input_is_an_error(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UserError, match="Standard input is closed"):
        find_files("-")


def _names(kind, tmp_path):
    """Two names of the same stream."""
    if kind == "link":
        os.mkfifo(tmp_path / "pipe")
        os.symlink(tmp_path / "pipe", tmp_path / "link")
        return str(tmp_path / "pipe"), str(tmp_path / "link")
    return {
        "-": ("-", "-"),
        "device": ("-", "/dev/stdin"),
        "list": ("a.csv,-", "- , b.csv"),
        "null": ("/dev/null", "/dev/null"),
    }[kind]


@pytest.mark.parametrize("kind", ["-", "device", "list", "link", "null"])
def test_two_inputs_cannot_be_the_same_stream(kind, tmp_path):
    first, second = _names(kind, tmp_path)
    message = "{} and {} are the same stream, which can only be read once.*Received: {}="
    with pytest.raises(UserError, match=message.format("source", "target", "source")):
        read_parallel(first, second)
    jobs = [
        (finetune, finetuning_defaults, "train", "validation"),
        (pretrain, pretraining_defaults, "train", "validation"),
        (finetune, translation_defaults, "train.target", "validation.source"),
    ]
    for job, defaults, *names in jobs:
        config = defaults()
        config.data.update_from_flattened_dict(dict(zip(names, (first, second), strict=True)))
        expected = message.format(f"data.{names[0]}", f"data.{names[1]}", f"data.{names[0]}")
        with pytest.raises(UserError, match=expected):
            job(config, str(tmp_path / "run"))


def test_other_inputs_may_be_equal(tmp_path):
    (tmp_path / "a.csv").write_bytes(TEXT)
    streams.check_streams_differ(
        {
            "a": str(tmp_path / "a.csv"),
            "b": [tmp_path / "a.csv", "-"],
            "c": None,
            "d": "missing,missing",
            "e": "missing",
        }
    )


def test_a_file_that_is_standard_input_can_be_read_by_its_path_too(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_bytes(TEXT)
    monkeypatch.setattr(sys, "stdin", path.open())
    streams.check_streams_differ({"a": "-", "b": str(path)})
    with pytest.raises(UserError, match="a and b are the same stream"):
        streams.check_streams_differ({"a": "-", "b": "/dev/stdin"})


def test_a_full_disk_is_named_and_leaves_nothing_behind(tmp_path, monkeypatch):
    path = _stream("-", tmp_path, monkeypatch, b"a" * 3_000_000)
    monkeypatch.setattr(
        streams, "_folder", functools.cache(lambda: tempfile.TemporaryDirectory(dir=tmp_path))
    )
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))
    try:
        with pytest.raises(UserError, match="temporary file in .*: File too large. Set TMPDIR"):
            find_files(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(streams._folder().name) == []


def test_a_missing_folder_for_temporary_files_is_named(tmp_path, monkeypatch):
    path = _stream("-", tmp_path, monkeypatch)
    monkeypatch.setattr(streams, "_folder", streams._folder.__wrapped__)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(UserError, match="temporary file: No such file.*Set TMPDIR"):
        find_files(path)


def test_files_and_folders_are_no_streams(tmp_path):
    (tmp_path / "a").write_text("x")
    for path in (tmp_path / "a", tmp_path, tmp_path / "none", "gs://a/b", "tfds:x", "a\0b"):
        assert not streams.is_stream(str(path))
