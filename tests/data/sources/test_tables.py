"""Tables against Python's csv module and files made by hand."""

import csv
import gzip
import json
import random

import numpy as np
import pytest

from keras_attn.data.sources.table_formats import header_names
from keras_attn.data.sources.tables import iterate_rows, read_table
from keras_attn.errors import UserError
from tests.support.refused_tables import refused
from tests.support.table_files import write_table


def _nasty_fields(seed, rows, signs):
    source = random.Random(seed)
    return [
        ["".join(source.choices(signs, k=source.randrange(1, 12))) for _ in range(3)]
        for _ in range(rows)
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_csv_holds_what_pythons_csv_module_wrote(tmp_path, name, end):
    rows = _nasty_fields(1, 300, ['"', ",", "\t", "a", "é", " ", "\u2028", "\n", "\r", "😀"])
    path = tmp_path / "plain.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator=end, quoting=csv.QUOTE_ALL)
        writer.writerows([["label", "text", "other"], *rows])
    path = write_table(tmp_path / name, path.read_bytes())
    table = read_table(path, text="text", text_pair="other", label="label", unlabelled=True)
    found = zip(table.labels, table.texts, table.text_pairs, strict=True)
    assert [list(row) for row in found] == rows
    breaks = np.cumsum([0] + [1 + "".join(row).count("\n") for row in rows[:-1]])
    np.testing.assert_array_equal(table.lines, 2 + breaks)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_tsv_equals_the_csv_module_without_quoting(tmp_path, end):
    rows = _nasty_fields(2, 300, ['"', ",", "'", "a", "é", " ", "\u2028", "😀", "\x0b"])
    content = end.join("\t".join(row) for row in [["a", "text", "b"], *rows]) + end
    path = write_table(tmp_path / "t.tsv", content)
    with open(path, newline="", encoding="utf-8") as file:
        expected = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    table = read_table(path, text="text", text_pair="b", label="a", unlabelled=True)
    found = zip(table.labels, table.texts, table.text_pairs, strict=True)
    assert [list(row) for row in found] == expected == rows


def test_quoted_tsv_holds_what_pythons_csv_module_wrote(tmp_path):
    rows = _nasty_fields(3, 300, ['"', ",", "\t", "a", "é", " ", "\u2028", "\n", "😀"])
    with open(tmp_path / "t.tsv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")  # as pandas' to_csv
        writer.writerows([["label", "text", "other"], *rows])
    table = read_table(
        str(tmp_path / "t.tsv"),
        text="text",
        text_pair="other",
        label="label",
        unlabelled=True,
        format="quoted_tsv",
    )
    found = zip(table.labels, table.texts, table.text_pairs, strict=True)
    assert [list(row) for row in found] == rows
    assert header_names(str(tmp_path / "t.tsv"), "quoted_tsv", "utf-8") == [
        "label",
        "text",
        "other",
    ]


def test_jsonl_values_become_strings(tmp_path):
    records = [
        {"text": 'tab\tquote" é', "label": "x"},
        {"text": "line\nbreak", "label": 2},
        {"text": "", "label": 0.5},
        {"text": "last", "label": True},
    ]
    path = write_table(tmp_path / "t.jsonl", "\n".join(json.dumps(r) for r in records) + "\n\n")
    table = read_table(path, text="text", label="label")
    assert table.texts == [record["text"] for record in records]
    assert table.labels == ["x", "2", "0.5", "true"]


def test_a_list_of_json_has_the_rows_of_its_objects(tmp_path):
    records = [{"text": "a [b]", "label": 1}, {"label": 2, "text": "ü\n"}, ["c"]]
    for indent in (None, 2):
        path = write_table(tmp_path / "t.json", json.dumps(records, indent=indent))
        assert [
            row[:1] + row[2:3]
            for row in iterate_rows(path, text="text", label="label", on_bad_text="skip")
        ] == [("a [b]", "1"), ("ü\n", "2")]
        assert "row 3" in refused("text", path)
    assert "t.json" in refused("complete list", write_table(tmp_path / "t.json", '[{"text": "a"},'))


def test_byte_order_mark_and_blank_lines_are_no_rows(tmp_path):
    for name in ("t.tsv", "t.csv"):
        path = write_table(tmp_path / name, "\ufefftext\r\na b\r\n\r\nc\r\n\r\n")
        table = read_table(path, text="text")
        assert (table.texts, table.skipped) == (["a b", "c"], {"empty line": 2})
    path = write_table(tmp_path / "t.tsv", "\ufefftext\na\n", "utf-16-le")
    assert read_table(path, text="text", encoding="utf-16-le").texts == ["a"]
    path = write_table(tmp_path / "t.jsonl", '\ufeff{"text": "a"}\r\n\r\n{"text": "b"}')
    table = read_table(path, text="text")
    assert (table.texts, table.skipped) == (["a", "b"], {"empty line": 1})


def test_empty_lines_before_a_header_are_passed_over(tmp_path):
    for name in ("t.tsv", "t.csv"):
        path = write_table(tmp_path / name, "\n\ntext\na\n")
        assert read_table(path, text="text").texts == ["a"]
        assert header_names(path, name[2:], "utf-8") == ["text"]


def test_the_ending_of_a_name_counts_in_capitals_too(tmp_path):
    path = tmp_path / "T.TSV.GZ"
    path.write_bytes(gzip.compress(b"text\na\n"))
    assert read_table(str(path), text="text").texts == ["a"]


def test_only_a_line_feed_ends_a_line(tmp_path):
    text = "a\rb\x0b\x0c\x1c\x85\u2028c"
    for name in ("t.tsv", "t.txt"):
        path = write_table(tmp_path / name, f"text\n{text}\r\nd\n")
        assert read_table(path, text="text").texts[-2:] == [text, "d"]


def test_a_row_has_the_fields_of_its_header(tmp_path):
    path = write_table(tmp_path / "t.tsv", "text\tlabel\na\tx\t\t\nb\ttab in text\ty\n")
    assert refused("2 fields of the header", path, label="label").endswith("line 3")
    table = read_table(path, text="text", label="label", on_bad_text="skip")
    assert (table.texts, table.skipped) == (["a"], {"fields": 1})
    refused("'text' must be unique", write_table(tmp_path / "t.csv", "text,text\na,b\n"))


def test_numbered_columns_mean_no_header(tmp_path):
    path = write_table(tmp_path / "t.tsv", "s\t1\tone\ns\t0\ttwo\n")
    for text, label in ((2, 1), ("2", "1")):
        table = read_table(path, text=text, label=label)
        assert (table.texts, table.labels) == (["one", "two"], ["1", "0"])
    assert read_table(path, text=2, header=True).texts == ["two"]
    refused("must be given by number", path, text="s", header=False)
    refused("at least 4 fields", path, text=3)


def test_the_names_of_a_header_are_those_of_the_first_line(tmp_path):
    path = write_table(tmp_path / "t.tsv.gz", '\ufeff\n index\ta "b\r\n1\t2\n')
    assert header_names(path, "tsv", "utf-8") == ["index", 'a "b']
    assert header_names(write_table(tmp_path / "t.csv", '"a,b",c\n'), "csv", "utf-8") == [
        "a,b",
        "c",
    ]
    assert header_names(write_table(tmp_path / "t.csv", '"a\n'), "csv", "utf-8") == []
    assert header_names(write_table(tmp_path / "t.csv", ""), "csv", "utf-8") == []
    assert header_names("not read", "lines", "utf-8") == []


def test_a_header_may_hold_numbers_as_names(tmp_path):
    path = write_table(tmp_path / "t.tsv", "2021\tlabel\nold\tx\n")
    assert read_table(path, text="2021", label="label").texts == ["old"]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252", "shift-jis"])
def test_given_encodings_are_read(tmp_path, encoding):
    text = "日本語" if encoding == "shift-jis" else "naïve £5"
    path = write_table(tmp_path / "t.tsv", f"text\n{text}\nb\n", encoding)
    assert read_table(path, text="text", encoding=encoding).texts == [text, "b"]


def test_long_csv_fields_are_read(tmp_path):
    path = write_table(tmp_path / "t.csv", "text\n" + "a" * 300_000 + "\n")
    assert len(read_table(path, text="text").texts[0]) == 300_000


def test_label_text_lines_are_split_at_the_first_blank(tmp_path):
    path = write_table(tmp_path / "t.all", b"5 How far ?\n0 caf\xe9  noir\n3\n")
    table = read_table(path, text="text", label="label", format="label_text", encoding="latin-1")
    assert table.labels == ["5", "0", "3"]
    assert table.texts == ["How far ?", "café  noir", ""]
    assert "line 2" in refused("utf-8", path, label="label", format="label_text")


def test_text_lines_need_no_columns(tmp_path):
    path = write_table(tmp_path / "t.txt.gz", "one\n two\tthree \n")
    assert read_table(path, text="text").texts == ["one", " two\tthree "]


def test_sources_are_joined_in_order(tmp_path):
    b = write_table(tmp_path / "b.tsv", "text\n1\n")
    a = write_table(tmp_path / "a.csv.gz", "other,text\n,2\n,3\n")
    for source in (f"{b},{a}", [b, a]):
        table = read_table(source, text="text")
        assert table.texts == ["1", "2", "3"]
        assert table.where(0) == f"{b}, line 2" and table.where(2) == f"{a}, line 3"
    assert read_table(str(tmp_path / "*"), text="text").texts == ["2", "3", "1"]
    odd = write_table(tmp_path / "x,[y].tsv", "text\nodd\n")
    assert read_table(odd, text="text").texts == ["odd"]


def test_rows_are_read_as_they_are_needed(tmp_path):
    path = write_table(tmp_path / "t.tsv", b"text\na\nbad \xff\n")
    rows = iter(iterate_rows(path, text="text"))
    assert next(rows)[:5] == ("a", None, None, path, 2)
    with pytest.raises(UserError):
        next(rows)


def test_iterating_twice_counts_once(tmp_path):
    path = write_table(tmp_path / "t.tsv", b"text\na\n\xff\n")
    rows = iterate_rows(path, text="text", on_bad_text="skip")
    assert len(list(rows)) == len(list(rows)) == 1
    assert rows.skipped == {"encoding": 1}


def test_a_carriage_return_in_a_long_first_line_ends_no_line(tmp_path):
    text = f"a\rb{' long' * 50_000}"
    (tmp_path / "t.tsv").write_bytes(f"{text}\tx\nc\ty\n".encode())
    (tmp_path / "t.tsv.gz").write_bytes(gzip.compress(f"{text}\tx\nc\ty\n".encode()))
    for name in ("t.tsv", "t.tsv.gz"):
        table = read_table(str(tmp_path / name), text=0, label=1)
        assert (table.texts, table.labels) == ([text, "c"], ["x", "y"])
