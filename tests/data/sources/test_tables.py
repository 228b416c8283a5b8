"""Tables against Python's csv module and files made by hand."""

import csv
import gzip
import json
import random

import numpy as np
import pytest

from keras_attn.data.sources.table_formats import header_names
from keras_attn.data.sources.tables import format_counts, iterate_rows, read_table
from keras_attn.errors import UserError
from tests.support.refused_tables import refused


def _write(path, content, encoding="utf-8"):
    data = content if isinstance(content, bytes) else content.encode(encoding)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


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
    path = _write(tmp_path / name, path.read_bytes())
    table = read_table(path, text="text", text_pair="other", label="label", unlabelled=True)
    found = zip(table.labels, table.texts, table.text_pairs, strict=True)
    assert [list(row) for row in found] == rows
    breaks = np.cumsum([0] + [1 + "".join(row).count("\n") for row in rows[:-1]])
    np.testing.assert_array_equal(table.lines, 2 + breaks)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_tsv_equals_the_csv_module_without_quoting(tmp_path, end):
    rows = _nasty_fields(2, 300, ['"', ",", "'", "a", "é", " ", "\u2028", "😀", "\x0b"])
    content = end.join("\t".join(row) for row in [["a", "text", "b"], *rows]) + end
    path = _write(tmp_path / "t.tsv", content)
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


def test_quotes_in_tsv_that_break_its_rows_are_named_with_what_reads_them(tmp_path):
    for content, message in (
        ('text\tlabel\n"a\nb"\tx\n', "at least 2 fields.*quoted_tsv"),
        ('"text"\t"label"\n"a\nb"\t"x"\n', "must not be quoted.*quoted_tsv"),
        ('text\tlabel\n"a\tb"\tx\n', "2 fields of the header.*quoted_tsv"),
    ):
        path = _write(tmp_path / "t.tsv", content)
        refused(message, path, label="label")
        table = read_table(path, text="text", label="label", format="quoted_tsv")
        assert (table.texts[0][::2], table.labels) == ("ab", ["x"])


def test_jsonl_values_become_strings(tmp_path):
    records = [
        {"text": 'tab\tquote" é', "label": "x"},
        {"text": "line\nbreak", "label": 2},
        {"text": "", "label": 0.5},
        {"text": "last", "label": True},
    ]
    path = _write(tmp_path / "t.jsonl", "\n".join(json.dumps(r) for r in records) + "\n\n")
    table = read_table(path, text="text", label="label")
    assert table.texts == [record["text"] for record in records]
    assert table.labels == ["x", "2", "0.5", "true"]


def test_a_list_of_json_has_the_rows_of_its_objects(tmp_path):
    records = [{"text": "a [b]", "label": 1}, {"label": 2, "text": "ü\n"}, ["c"]]
    for indent in (None, 2):
        path = _write(tmp_path / "t.json", json.dumps(records, indent=indent))
        assert [
            row[:1] + row[2:3]
            for row in iterate_rows(path, text="text", label="label", on_bad_text="skip")
        ] == [("a [b]", "1"), ("ü\n", "2")]
        assert "row 3" in refused("text", path)
    assert "t.json" in refused("complete list", _write(tmp_path / "t.json", '[{"text": "a"},'))


def test_byte_order_mark_and_blank_lines_are_no_rows(tmp_path):
    for name in ("t.tsv", "t.csv"):
        path = _write(tmp_path / name, "\ufefftext\r\na b\r\n\r\nc\r\n\r\n")
        table = read_table(path, text="text")
        assert (table.texts, table.skipped) == (["a b", "c"], {"empty line": 2})
    path = _write(tmp_path / "t.tsv", "\ufefftext\na\n", "utf-16-le")
    assert read_table(path, text="text", encoding="utf-16-le").texts == ["a"]
    path = _write(tmp_path / "t.jsonl", '\ufeff{"text": "a"}\r\n\r\n{"text": "b"}')
    table = read_table(path, text="text")
    assert (table.texts, table.skipped) == (["a", "b"], {"empty line": 1})


def test_empty_lines_before_a_header_are_passed_over(tmp_path):
    for name in ("t.tsv", "t.csv"):
        path = _write(tmp_path / name, "\n\ntext\na\n")
        assert read_table(path, text="text").texts == ["a"]
        assert header_names(path, name[2:], "utf-8") == ["text"]


def test_the_ending_of_a_name_counts_in_capitals_too(tmp_path):
    path = tmp_path / "T.TSV.GZ"
    path.write_bytes(gzip.compress(b"text\na\n"))
    assert read_table(str(path), text="text").texts == ["a"]


def test_only_a_line_feed_ends_a_line(tmp_path):
    text = "a\rb\x0b\x0c\x1c\x85\u2028c"
    for name in ("t.tsv", "t.txt"):
        path = _write(tmp_path / name, f"text\n{text}\r\nd\n")
        assert read_table(path, text="text").texts[-2:] == [text, "d"]


def test_a_row_has_the_fields_of_its_header(tmp_path):
    path = _write(tmp_path / "t.tsv", "text\tlabel\na\tx\t\t\nb\ttab in text\ty\n")
    assert refused("2 fields of the header", path, label="label").endswith("line 3")
    table = read_table(path, text="text", label="label", on_bad_text="skip")
    assert (table.texts, table.skipped) == (["a"], {"fields": 1})
    refused("'text' must be unique", _write(tmp_path / "t.csv", "text,text\na,b\n"))


def test_numbered_columns_mean_no_header(tmp_path):
    path = _write(tmp_path / "t.tsv", "s\t1\tone\ns\t0\ttwo\n")
    for text, label in ((2, 1), ("2", "1")):
        table = read_table(path, text=text, label=label)
        assert (table.texts, table.labels) == (["one", "two"], ["1", "0"])
    assert read_table(path, text=2, header=True).texts == ["two"]
    refused("must be given by number", path, text="s", header=False)
    refused("at least 4 fields", path, text=3)


def test_the_names_of_a_header_are_those_of_the_first_line(tmp_path):
    path = _write(tmp_path / "t.tsv.gz", '\ufeff\n index\ta "b\r\n1\t2\n')
    assert header_names(path, "tsv", "utf-8") == ["index", 'a "b']
    assert header_names(_write(tmp_path / "t.csv", '"a,b",c\n'), "csv", "utf-8") == ["a,b", "c"]
    assert header_names(_write(tmp_path / "t.csv", '"a\n'), "csv", "utf-8") == []
    assert header_names(_write(tmp_path / "t.csv", ""), "csv", "utf-8") == []
    assert header_names("not read", "lines", "utf-8") == []


def test_a_header_may_hold_numbers_as_names(tmp_path):
    path = _write(tmp_path / "t.tsv", "2021\tlabel\nold\tx\n")
    assert read_table(path, text="2021", label="label").texts == ["old"]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252", "shift-jis"])
def test_given_encodings_are_read(tmp_path, encoding):
    text = "日本語" if encoding == "shift-jis" else "naïve £5"
    path = _write(tmp_path / "t.tsv", f"text\n{text}\nb\n", encoding)
    assert read_table(path, text="text", encoding=encoding).texts == [text, "b"]


def test_undecodable_lines_are_an_error_or_counted(tmp_path):
    path = _write(tmp_path / "t.tsv", b"text\nfine\nna\xefve\nalso fine\n")
    message = refused("utf-8", path)
    assert message.endswith(f"{path}, line 3")
    table = read_table(path, text="text", on_bad_text="skip")
    assert (table.texts, table.skipped) == (["fine", "also fine"], {"encoding": 1})
    assert table.where(1) == f"{path}, line 4"


def test_half_a_surrogate_pair_in_json_is_bad_text(tmp_path):
    path = _write(tmp_path / "t.jsonl", '{"text": "a"}\n{"text": "\\ud83d"}\n')
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
    path = _write(tmp_path / name, "\n".join([*header, good, bad, good, ""]))
    assert refused(need, path, label="label").endswith(f"line {len(header) + 2}")
    table = read_table(path, text="text", label="label", on_bad_text="skip")
    assert (table.texts, table.skipped) == (["a", "a"], {reason: 1})
    assert table.lines.tolist() == [len(header) + 1, len(header) + 3]


def test_an_unclosed_quote_is_found_where_it_opens(tmp_path):
    path = _write(tmp_path / "t.csv", 'text\na\n"never closed\nb\nc\n')
    assert refused("CSV must be well-formed", path).endswith("line 3")


def test_long_csv_fields_are_read(tmp_path):
    path = _write(tmp_path / "t.csv", "text\n" + "a" * 300_000 + "\n")
    assert len(read_table(path, text="text").texts[0]) == 300_000


def test_label_text_lines_are_split_at_the_first_blank(tmp_path):
    path = _write(tmp_path / "t.all", b"5 How far ?\n0 caf\xe9  noir\n3\n")
    table = read_table(path, text="text", label="label", format="label_text", encoding="latin-1")
    assert table.labels == ["5", "0", "3"]
    assert table.texts == ["How far ?", "café  noir", ""]
    assert "line 2" in refused("utf-8", path, label="label", format="label_text")


def test_text_lines_need_no_columns(tmp_path):
    path = _write(tmp_path / "t.txt.gz", "one\n two\tthree \n")
    assert read_table(path, text="text").texts == ["one", " two\tthree "]


def test_sources_are_joined_in_order(tmp_path):
    b = _write(tmp_path / "b.tsv", "text\n1\n")
    a = _write(tmp_path / "a.csv.gz", "other,text\n,2\n,3\n")
    for source in (f"{b},{a}", [b, a]):
        table = read_table(source, text="text")
        assert table.texts == ["1", "2", "3"]
        assert table.where(0) == f"{b}, line 2" and table.where(2) == f"{a}, line 3"
    assert read_table(str(tmp_path / "*"), text="text").texts == ["2", "3", "1"]
    odd = _write(tmp_path / "x,[y].tsv", "text\nodd\n")
    assert read_table(odd, text="text").texts == ["odd"]


def test_rows_are_read_as_they_are_needed(tmp_path):
    path = _write(tmp_path / "t.tsv", b"text\na\nbad \xff\n")
    rows = iter(iterate_rows(path, text="text"))
    assert next(rows) == ("a", None, None, path, 2)
    with pytest.raises(UserError):
        next(rows)


def test_iterating_twice_counts_once(tmp_path):
    path = _write(tmp_path / "t.tsv", b"text\na\n\xff\n")
    rows = iterate_rows(path, text="text", on_bad_text="skip")
    assert len(list(rows)) == len(list(rows)) == 1
    assert rows.skipped == {"encoding": 1}


def test_missing_things_are_named(tmp_path):
    path = _write(tmp_path / "t.tsv", "sentence\tlabel\na\tx\nb\t\n")
    message = refused("sentence, label", path, text="sentense")
    assert message.endswith(". Did you mean sentence?")
    assert refused("label", path, text="sentence", label="label").endswith("line 3")
    records = _write(tmp_path / "t.jsonl", '{"text": "a"}\n{"txt": "b"}\n')
    assert "line 2" in refused("txt", records)
    assert "line 1" in refused("label", _write(tmp_path / "n.jsonl", '{"text": 1, "label": null}'),
                                label="label")  # fmt: skip
    refused("does not exist", str(tmp_path / "nope.tsv"))
    refused("is a folder", str(tmp_path))
    refused("matches no file", str(tmp_path / "nope*.tsv"))
    refused("file is required", "")
    refused("file is required", [])
    refused("must end in", _write(tmp_path / "t.xlsx", "a"))
    refused("text column", path, text=None)


def test_unknown_options_are_named(tmp_path):
    path = _write(tmp_path / "t.tsv", "text\na\n")
    refused("encoding", path, encoding="utf-9")
    refused("on_bad_text", path, on_bad_text="ignore")
    refused("format", path, format="xml")


@pytest.mark.parametrize("name", ["t.tsv", "t.csv", "t.jsonl", "t.txt", "t.tsv.gz"])
def test_empty_files_are_an_error(tmp_path, name):
    path = _write(tmp_path / name, "")
    assert "is empty" in refused(name, path)


def test_a_header_alone_is_an_error_only_for_a_table(tmp_path):
    path = _write(tmp_path / "t.tsv", "text\n")
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
    path = _write(tmp_path / "rows.csv", lines + after)
    rows = iterate_rows(path, text="text", label="label", on_bad_text="skip", max_line=50)
    assert [row.text for row in rows] == ["good", *9 * ["fine"], *(["late"] if after else [])]
    assert rows.skipped == {"csv": 1}
    assert [place.partition(": ")[0] for place in rows.skipped_places] == [f"{path}, line 3"]
    assert format_counts(rows.skipped) == "1 skipped (1 csv)"


def test_all_lines_of_a_row_with_a_wrong_quote_are_counted_and_told(tmp_path):
    path = _write(tmp_path / "rows.csv", 'text,label\n"two\nlines"x,1\ngood,1\n"more\nlines",0\n')
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


def test_utf_16_that_does_not_say_which_is_told(tmp_path):
    (tmp_path / "a.tsv").write_bytes("text\nx\n".encode("utf-16-le"))
    with pytest.raises(UserError, match="Cannot decode .*a.tsv as utf-16"):
        read_table(str(tmp_path / "a.tsv"), text="text", encoding="utf-16")


def test_rows_without_a_label_are_told_and_can_be_left_out(tmp_path):
    path = _write(tmp_path / "a.tsv", "text\tlabel\na\tx\nb\t\nc\t  \nd\ty\n")
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


def test_a_carriage_return_in_a_long_first_line_ends_no_line(tmp_path):
    text = f"a\rb{' long' * 50_000}"
    (tmp_path / "t.tsv").write_bytes(f"{text}\tx\nc\ty\n".encode())
    (tmp_path / "t.tsv.gz").write_bytes(gzip.compress(f"{text}\tx\nc\ty\n".encode()))
    for name in ("t.tsv", "t.tsv.gz"):
        table = read_table(str(tmp_path / name), text=0, label=1)
        assert (table.texts, table.labels) == ([text, "c"], ["x", "y"])


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
