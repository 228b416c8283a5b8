"""Lines that are too long: refused while they are read, in little memory."""

import collections
import csv
import gzip
import io
import json
import tracemalloc

import pyarrow
import pytest
from pyarrow import parquet

from keras_attn.data.sources.table_formats import BadRow, Lines
from keras_attn.data.sources.tables import read_table
from keras_attn.data.sources.text_sources import plan_source, read_task
from keras_attn.errors import UserError
from keras_attn.inference.translate_files import _stream_chunks
from keras_attn.tasks.translation.parallel_text import read_parallel

LONG = "é" * 600  # 1,200 bytes
ROWS = [("first", "x"), (LONG, "y"), ("third", "z")]


def _write(path, format):
    if format == "parquet":
        columns = zip(*ROWS, strict=True)
        parquet.write_table(pyarrow.table(dict(zip(("text", "label"), columns, strict=True))), path)
        return str(path)
    if format == "jsonl":
        lines = [
            json.dumps({"text": text, "label": label}, ensure_ascii=False) for text, label in ROWS
        ]
        content = "\n".join(lines) + "\n"
    else:
        file = io.StringIO()
        csv.writer(file, delimiter="," if format == "csv" else "\t", lineterminator="\n").writerows(
            [("text", "label"), *ROWS]
        )
        content = file.getvalue()
    path.write_bytes(gzip.compress(content.encode()))
    return str(path)


@pytest.mark.parametrize("format", ["csv", "tsv", "quoted_tsv", "jsonl", "parquet"])
def test_a_row_that_is_too_long_is_an_error_or_left_out(tmp_path, format):
    path = _write(tmp_path / ("a.parquet" if format == "parquet" else "a.gz"), format)
    options = {"text": "text", "label": "label", "format": format}
    with pytest.raises(UserError, match="at most 1,000 bytes; raise data.max_line.*skip"):
        read_table(path, **options, max_line=1000)
    table = read_table(path, **options, max_line=1000, on_bad_text="skip")
    assert (table.texts, table.labels) == (["first", "third"], ["x", "z"])
    assert table.skipped == {"too long": 1}
    first = 1 if format in ("jsonl", "parquet") else 2
    assert table.lines.tolist() == [first, first + 2]
    assert read_table(path, **options, max_line=1300).texts[1] == LONG  # as advised


@pytest.mark.parametrize(
    "long", [LONG, 'a"b\\ ],[{},' * 200, [[LONG], {"a": ["]"]}], "\\" * 70_000, "\\" * 70_001]
)
def test_a_long_element_of_a_list_of_json_is_an_error_or_left_out(tmp_path, long):
    rows = [{"text": "first"}, {"more": [{"a": long}, 1], "text": long}, {"text": "third"}]
    (tmp_path / "a.json").write_text(json.dumps(rows, indent=1))
    path = str(tmp_path / "a.json")
    with pytest.raises(UserError, match="at most 1,000 bytes.*a.json, row 2"):
        read_table(path, text="text", max_line=1000)
    for kept in (rows, rows[:2], rows[1:]):  # in every place
        (tmp_path / "a.json").write_text(json.dumps(kept))
        table = read_table(path, text="text", max_line=1000, on_bad_text="skip")
        assert table.texts == [row["text"] for row in kept if row["text"] != long]
        assert table.skipped == {"too long": 1}
    counts = collections.Counter()
    plan = plan_source(path, max_line=1000, on_bad_text="skip")
    assert list(read_task(plan, 0, counts)) == [["third"]]
    assert counts["lines_skipped"] == 1


@pytest.mark.parametrize("bad", ["[" * 200_000 + "]" * 200_000, "1" * 5000])
def test_json_that_python_cannot_read_is_a_bad_row_of_a_list(tmp_path, bad):
    (tmp_path / "a.json").write_text(f'[{{"text": "first"}}, {{"a": {bad}}}, {{"text": "third"}}]')
    table = read_table(str(tmp_path / "a.json"), text="text", on_bad_text="skip")
    assert (table.texts, table.skipped) == (["first", "third"], {"json": 1})


def test_wrong_json_in_a_long_list_is_called_wrong(tmp_path):
    (tmp_path / "a.json").write_text('[{"text": "a"b"}, ' + '{"text": "c"}, ' * 10_000 + "{}]")
    with pytest.raises(UserError, match="truncated after element 0.*Expecting ','"):
        read_table(str(tmp_path / "a.json"), text="text", max_line=1000, on_bad_text="skip")


def test_a_row_of_many_lines_is_bounded_too(tmp_path):
    (tmp_path / "a.csv").write_text('text\na\n"' + "line\n" * 300 + '"\nb\n')
    with pytest.raises(UserError, match="at most 1,000 bytes.*a.csv, line 3"):
        read_table(str(tmp_path / "a.csv"), text="text", max_line=1000)
    assert len(read_table(str(tmp_path / "a.csv"), text="text", max_line=2000).texts) == 3


def test_lines_are_cut_at_line_feeds_whatever_their_length(tmp_path):
    texts = ["a" * size for size in (0, 1, 999, 1000, 1001, 5000, 3)]
    for end in ("\n", "\r\n"):
        for last in ("", end):
            (tmp_path / "a.txt").write_bytes((end.join(texts) + last).encode())
            lines = Lines(str(tmp_path / "a.txt"), "utf-8", 1000)
            found = [None if isinstance(line, BadRow) else line.rstrip("\r\n") for line in lines]
            assert found == [text if len(text) <= 1000 else None for text in texts]
            assert lines.count == len(texts)


@pytest.mark.parametrize("name", ["a.csv.gz", "a.jsonl.gz", "a.json.gz", "a.txt.gz"])
def test_a_huge_line_is_refused_in_little_memory(tmp_path, name):
    with gzip.open(tmp_path / name, "wb", compresslevel=1) as file:
        file.write({"a.csv.gz": b"text\n", "a.json.gz": b'[{"text": "'}.get(name, b'{"text": "'))
        for _ in range(100):
            file.write(b"a" * 2**20)
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match="at most 4,194,304 bytes"):
            read_table(str(tmp_path / name), text="text", max_line=1 << 22)
        if name.startswith("a.json"):
            plan = plan_source(str(tmp_path / name), max_line=1 << 22)
            with pytest.raises(UserError, match="at most 4,194,304 bytes"):
                list(read_task(plan, 0, {}))
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.thorough
def test_a_huge_element_of_a_list_of_json_is_skipped_in_little_memory(tmp_path):
    with gzip.open(tmp_path / "a.json.gz", "wb", compresslevel=1) as file:
        file.write(b'[{"text": "')
        for _ in range(100):
            file.write(b"a" * 2**20)
        file.write(b'"}, {"text": "b"}]')
    tracemalloc.start()
    try:
        table = read_table(
            str(tmp_path / "a.json.gz"), text="text", max_line=1 << 22, on_bad_text="skip"
        )
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()
    assert (table.texts, table.skipped) == (["b"], {"too long": 1})


def test_lines_to_translate_are_bounded_in_files_and_streams(tmp_path):
    (tmp_path / "a.de").write_text(f"eins\n{LONG}\ndrei\n", encoding="utf-8")
    (tmp_path / "a.en").write_text("one\ntwo\nthree\n")
    paths = str(tmp_path / "a.de"), str(tmp_path / "a.en")
    with pytest.raises(UserError, match="at most 1,000 bytes.*a.de, line 2"):
        read_parallel(*paths, max_line=1000)
    found = read_parallel(*paths, max_line=1000, on_bad_text="skip")
    assert (found.sources, found.skipped) == (["eins", "drei"], {"too long": 1})
    stream = io.BytesIO(f"\ufeffeins\r\n{LONG}\n{LONG * 300}\ndrei".encode())
    lines = [line for chunk in _stream_chunks(stream, 1000) for line in chunk]
    assert [isinstance(line, BadRow) for line in lines] == [False, True, True, False]
    assert (lines[0], lines[3]) == ("eins", "drei")
    assert list(_stream_chunks(io.BytesIO(b"eins\rzwei\r"), 1000)) == [["eins", "zwei"]]
