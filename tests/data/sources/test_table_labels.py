"""Labels as files of other tools hold them: numbers of two types, NaN, lines of names."""

import json

import pyarrow
import pytest
from pyarrow import parquet

from keras_attn.data.sources.tables import read_table
from keras_attn.errors import UserError


def _labels(path, **options):
    return read_table(str(path), text="text", label="label", **options)


def test_equal_numbers_are_one_label_in_every_format_with_types(tmp_path):
    labels = [1, 1.0, 0, 0.0, -0.0, 2.5, 1e300, True, "1", "1.0"]
    expected = ["1", "1", "0", "0", "0", "2.5", "1e+300", "true", "1", "1.0"]
    records = [{"text": "a", "label": label} for label in labels]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    (tmp_path / "a.json").write_text(json.dumps(records))
    assert _labels(tmp_path / "a.jsonl").labels == _labels(tmp_path / "a.json").labels == expected
    table = pyarrow.table({"text": ["a"] * 3, "label": [1.0, 0.0, 2.5]})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert _labels(tmp_path / "a.parquet").labels == ["1", "0", "2.5"]
    lists = '{"text": "a", "label": [1, 1.0, "x"]}\n{"text": "a", "label": [NaN]}\n'
    (tmp_path / "a.jsonl").write_text(lists)
    assert _labels(tmp_path / "a.jsonl").labels == ['[1, "1", "x"]', "[null]"]


@pytest.mark.parametrize("label", ["NaN", "null", "Infinity", "-Infinity", '""'])
def test_a_label_that_is_no_value_is_a_missing_label(tmp_path, label):
    rows = f'{{"text": "a", "label": 1}}\n{{"text": "b", "label": {label}}}\n'
    (tmp_path / "a.jsonl").write_text(rows)
    with pytest.raises(UserError, match="must have a label .*data.on_bad_text=skip.*line 2"):
        _labels(tmp_path / "a.jsonl")
    table = _labels(tmp_path / "a.jsonl", on_bad_text="skip")
    assert (table.labels, table.skipped) == (["1"], {"without label": 1})
    if label == "NaN":
        column = pyarrow.table({"text": ["a", "b"], "label": [1.0, float("nan")]})
        parquet.write_table(column, tmp_path / "a.parquet")
        assert _labels(tmp_path / "a.parquet", on_bad_text="skip").labels == ["1"]
        (tmp_path / "b.jsonl").write_text('{"text": NaN, "label": 1}\n')
        assert _labels(tmp_path / "b.jsonl").texts == [""]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["text,label", "a film,0", "b film,1", "c,0"], "yes"),
        (["my text,what", "a film,1.5", "b film,2", "c,2.25"], "yes"),
        (["my text,what", "a film,x", "b film,y", "c,x", "d,y"], "maybe"),
        (["my text,what", "a film,x", "b film,y", "c,x"], "no"),
        (["review,what", "a film,x", "b film,y", "c,x"], "yes"),
        (["a text of some words,rare", "b,x", "c,x"], "no"),
        (["a,x", "b,x", "c,y", "d,y"], "no"),
        (["text,3", "a film,0", "b film,1"], "no"),
    ],
)
def test_headers_are_distinguished_from_rows_by_their_labels(tmp_path, lines, expected):
    (tmp_path / "a.csv").write_text("\n".join(lines))
    table = read_table(str(tmp_path / "a.csv"), text=0, label=1)
    assert table.find_headers() == expected


def test_every_file_has_its_own_line_of_names(tmp_path):
    names = [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    (tmp_path / "a.csv").write_text("text,label\na,x\nb,y\n")
    (tmp_path / "b.csv").write_text("text,label\nc,x\n")
    table = read_table(names, text=0, label=1)
    assert table.find_headers() == "yes"
    rest = table.without_first_rows()
    assert rest.texts == ["a", "b", "c"]
    assert [rest.where(row) for row in (0, 2)] == [f"{name}, line 2" for name in names]
    (tmp_path / "b.csv").write_text("c,x\nd,y\n")
    assert read_table(names, text=0, label=1).find_headers() == "no"


def test_a_header_of_lists_of_labels_is_found_by_its_labels(tmp_path):
    (tmp_path / "a.tsv").write_text("what\ttags\na\tx,y\nb\ty\nc\tx\n")
    table = read_table(str(tmp_path / "a.tsv"), text=0, label=1)
    assert [table.find_headers(separator) for separator in (",", None)] == ["maybe", "no"]
