"""Tables that cannot be read, and rows that are errors or skipped."""

import gzip
import json
import random

import pytest

from keras_attn.data.sources.tables import format_counts, iterate_rows, read_table
from keras_attn.errors import UserError
from tests.support.refused_tables import refused
from tests.support.table_files import write_table


def test_quotes_in_tsv_that_break_its_rows_are_named_with_what_reads_them(tmp_path):
    for content, message in (
        ('text\tlabel\n"a\nb"\tx\n', "at least 2 fields.*quoted_tsv"),
        ('"text"\t"label"\n"a\nb"\t"x"\n', "must not be quoted.*quoted_tsv"),
        ('text\tlabel\n"a\tb"\tx\n', "2 fields of the header.*quoted_tsv"),
    ):
        path = write_table(tmp_path / "t.tsv", content)
        refused(message, path, label="label")
        table = read_table(path, text="text", label="label", format="quoted_tsv")
        assert (table.texts[0][::2], table.labels) == ("ab", ["x"])


def test_undecodable_lines_are_an_error_or_counted(tmp_path):
    path = write_table(tmp_path / "t.tsv", b"text\nfine\nna\xefve\nalso fine\n")
    message = refused("utf-8", path)
    assert message.endswith(f"{path}, line 3")
    table = read_table(path, text="text", on_bad_text="skip")
    assert (table.texts, table.skipped) == (["fine", "also fine"], {"encoding": 1})
    assert table.where(1) == f"{path}, line 4"


def test_half_a_surrogate_pair_in_json_is_bad_text(tmp_path):
    path = write_table(tmp_path / "t.jsonl", '{"text": "a"}\n{"text": "\\ud83d"}\n')
    assert refused("utf-8", path).endswith("line 2")


@pytest.mark.parametrize(
    ("name", "bad", "reason", "need"),
    [
        ("t.tsv", "only text", "fields", "at least 2 fields"),
        ("t.csv", 'x,"a"b', "csv", "CSV must be well-formed"),
        ("t.jsonl", '{"text": "a", ', "json", "JSON object"),
        ("t.jsonl", '["a", "b"]', "json", "JSON object"),
        ("t.jsonl", "[" * 100_000, "json", "JSON object"),
    ],
)
def test_bad_rows_are_an_error_or_counted(tmp_path, name, bad, reason, need):
    good = {"t.tsv": "x\ta", "t.csv": "x,a", "t.jsonl": '{"text": "a", "label": "x"}'}[name]
    header = {"t.tsv": ["label\ttext"], "t.csv": ["label,text"], "t.jsonl": []}[name]
    path = write_table(tmp_path / name, "\n".join([*header, good, bad, good, ""]))
    assert refused(need, path, label="label").endswith(f"line {len(header) + 2}")
    table = read_table(path, text="text", label="label", on_bad_text="skip")
    assert (table.texts, table.skipped) == (["a", "a"], {reason: 1})
    assert table.lines.tolist() == [len(header) + 1, len(header) + 3]


def test_an_unclosed_quote_is_found_where_it_opens(tmp_path):
    path = write_table(tmp_path / "t.csv", 'text\na\n"never closed\nb\nc\n')
    assert refused("CSV must be well-formed", path).endswith("line 3")


def test_missing_things_are_named(tmp_path):
    path = write_table(tmp_path / "t.tsv", "sentence\tlabel\na\tx\nb\t\n")
    message = refused("sentence, label", path, text="sentense")
    assert message.endswith(". Did you mean sentence?")
    assert refused("label", path, text="sentence", label="label").endswith("line 3")
    records = write_table(tmp_path / "t.jsonl", '{"text": "a"}\n{"txt": "b"}\n')
    assert "line 2" in refused("txt", records)
    null = write_table(tmp_path / "n.jsonl", '{"text": 1, "label": null}')
    assert "line 1" in refused("label", null, label="label")
    refused("does not exist", str(tmp_path / "nope.tsv"))
    refused("is a folder", str(tmp_path))
    refused("matches no file", str(tmp_path / "nope*.tsv"))
    refused("file is required", "")
    refused("file is required", [])
    refused("must end in", write_table(tmp_path / "t.xlsx", "a"))
    refused("text column", path, text=None)


def test_unknown_options_are_named(tmp_path):
    path = write_table(tmp_path / "t.tsv", "text\na\n")
    refused("encoding", path, encoding="utf-9")
    refused("on_bad_text", path, on_bad_text="ignore")
    refused("format", path, format="xml")


@pytest.mark.parametrize("name", ["t.tsv", "t.csv", "t.jsonl", "t.txt", "t.tsv.gz"])
def test_empty_files_are_an_error(tmp_path, name):
    path = write_table(tmp_path / name, "")
    assert "is empty" in refused(name, path)


def test_a_header_alone_is_an_error_only_for_a_table(tmp_path):
    path = write_table(tmp_path / "t.tsv", "text\n")
    refused("at least one row", path)
    assert list(iterate_rows(path, text="text")) == []


def test_broken_gzip_files_are_an_error(tmp_path):
    whole = gzip.compress(b"text\n" + random.Random(0).randbytes(4000).hex().encode())
    cut = tmp_path / "cut.tsv.gz"
    cut.write_bytes(whole[:-1000])
    refused("gzip file is truncated or damaged", str(cut))
    plain = tmp_path / "plain.tsv.gz"
    plain.write_bytes(b"text\na\n")
    refused("gzip file is truncated or damaged", str(plain))


@pytest.mark.parametrize("after", ["", '"late",1\n'])  # the quote is closed nowhere, too late
def test_a_quote_that_nothing_closes_takes_its_row_alone(tmp_path, after):
    lines = 'text,label\ngood,1\n"open,1\n' + "fine,0\n" * 9
    path = write_table(tmp_path / "rows.csv", lines + after)
    rows = iterate_rows(path, text="text", label="label", on_bad_text="skip", max_line=50)
    assert [row.text for row in rows] == ["good", *9 * ["fine"], *(["late"] if after else [])]
    assert rows.skipped == {"csv": 1}
    assert [place.partition(": ")[0] for place in rows.skipped_places] == [f"{path}, line 3"]
    assert format_counts(rows.skipped) == "1 skipped (1 csv)"


def test_all_lines_of_a_row_with_a_wrong_quote_are_counted_and_named(tmp_path):
    path = write_table(
        tmp_path / "rows.csv", 'text,label\n"two\nlines"x,1\ngood,1\n"more\nlines",0\n'
    )
    rows = iterate_rows(path, text="text", label="label", on_bad_text="skip")
    assert [(row.text, row.line) for row in rows] == [("good", 4), ("more\nlines", 5)]
    assert [place.partition(": ")[0] for place in rows.skipped_places] == [
        f"{path}, line {line}" for line in (2, 3)
    ]


def test_a_record_without_the_field_is_a_bad_row_where_others_have_it(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "label": "x"}\n{"text": "b"}\n{"text": "c", "label": "y"}\n')
    columns = {"text": "text", "label": "label"}
    with pytest.raises(UserError, match="'label' is required, but the fields are text.*, line 2"):
        read_table(str(path), **columns)
    table = read_table(str(path), **columns, on_bad_text="skip")
    assert (list(table.texts), list(table.labels)) == (["a", "c"], ["x", "y"])
    assert sum(table.skipped.values()) == 1
    with pytest.raises(UserError, match="Unknown column 'lable'. The columns of"):
        read_table(str(path), text="text", label="lable", on_bad_text="skip")


@pytest.mark.parametrize("encoding", ["rot13", "zlib", "undefined"])
def test_what_is_no_encoding_of_text_isrefused(tmp_path, encoding):
    (tmp_path / "a.tsv").write_text("text\nx\n")
    with pytest.raises(UserError, match="encoding must be a text encoding of Python"):
        read_table(str(tmp_path / "a.tsv"), text="text", encoding=encoding)


def test_utf_16_without_a_byte_order_is_an_error(tmp_path):
    (tmp_path / "a.tsv").write_bytes("text\nx\n".encode("utf-16-le"))
    with pytest.raises(UserError, match="Cannot decode .*a.tsv as utf-16"):
        read_table(str(tmp_path / "a.tsv"), text="text", encoding="utf-16")


def test_rows_without_a_label_are_named_and_can_be_left_out(tmp_path):
    path = write_table(tmp_path / "a.tsv", "text\tlabel\na\tx\nb\t\nc\t  \nd\ty\n")
    columns = {"text": "text", "label": "label"}
    with pytest.raises(UserError, match="in column 'label'. Set data.on_bad_text=.*a.tsv, line 3"):
        read_table(path, **columns)
    table = read_table(path, **columns, on_bad_text="skip")
    assert (table.texts, table.labels) == (["a", "d"], ["x", "y"])
    assert table.skipped == {"without label": 2}


@pytest.mark.parametrize(
    "name, data, message, advice",
    [
        (
            "a.csv",
            b"text;label\na;x\n",
            "convert the file to commas.*semicolons in the header",
            None,
        ),
        (
            "a.csv",
            b"text\tlabel\na\tx\n",
            "data.format=quoted_tsv.*tabs in the header",
            {"format": "quoted_tsv"},
        ),
        ("a.tsv", b"text,label\na,x\n", "data.format=csv.*commas in the header", {"format": "csv"}),
        (
            "a.csv",
            "text,label\na,x\n".encode("utf-16"),
            "decode the header of .*a.csv. Set data.enc",
            {"encoding": "utf-16"},
        ),
        (
            "a.csv",
            "text,label\na,x\n".encode("utf-16-le"),
            "decode the header.*Set data.encoding",
            {"encoding": "utf-16-le"},
        ),
    ],
)
def test_another_separator_or_encoding_is_no_wrong_column(tmp_path, name, data, message, advice):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError, match=message) as error:
        read_table(str(tmp_path / name), text="text", label="label")
    str(error.value).encode()  # can be printed
    if advice:
        table = read_table(str(tmp_path / name), text="text", label="label", **advice)
        assert (table.texts, table.labels) == (["a"], ["x"])


@pytest.mark.parametrize("column", ["text", "label"])
def test_an_object_is_neither_a_text_nor_a_label(tmp_path, column):
    rows = {"text": {"0": "a", "1": "b"}, "label": "x"}  # as pandas' to_json writes a table
    rows[column] = {"0": "a"}
    rows["label" if column == "text" else "text"] = "b"
    (tmp_path / "t.json").write_text(json.dumps(rows))
    with pytest.raises(UserError, match="not nested objects.*row 1"):
        read_table(str(tmp_path / "t.json"), text="text", label="label")


@pytest.mark.parametrize("column", ["text", "other"])
def test_a_list_of_texts_is_not_one_text(tmp_path, column):
    rows = {"text": "a", "other": "b", "label": "x"} | {column: ["a", "b"]}
    (tmp_path / "t.json").write_text(json.dumps(rows))  # as a dict of columns is written
    with pytest.raises(UserError, match="not a list.*row 1"):
        read_table(str(tmp_path / "t.json"), text="text", text_pair="other", label="label")


def test_half_a_surrogate_pair_is_no_wrong_encoding(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"text": "\\ud83d"}\n')
    with pytest.raises(UserError, match=r"correct an escape such as \\ud83d.*line 1"):
        read_table(str(tmp_path / "t.jsonl"), text="text")
