"""Columns of the input in the predictions."""

import csv
import json
import pathlib

import pytest

from keras_attn.errors import UserError
from keras_attn.inference.predict_files import predict_file, predict_texts
from tests.support.quick import quick

GOLDEN = pathlib.Path(__file__).parents[2] / "golden"
CLASSIFIER = str(GOLDEN / "hugging_face/classifier")
RECORDS = [
    {"id": 7, "text": "the cat", "label": "a", "tags": ["x", "y"]},
    {"id": 8, "text": "a dog, too", "label": "b", "tags": []},
]


@pytest.fixture
def records(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    return str(path)


def _predicted(source, target, keep, **options):
    predict_file(CLASSIFIER, source, str(target), keep_columns=keep, **options)
    with target.open(newline="") as file:
        if target.suffix == ".jsonl":
            return list(map(json.loads, file))
        return list(csv.DictReader(file, delimiter="\t" if target.suffix == ".tsv" else ","))


@pytest.mark.parametrize("ending", quick(["jsonl", "csv", "tsv"], "csv"))
def test_columns_are_copied_and_those_of_the_output_keep_their_names(records, tmp_path, ending):
    plain = _predicted(records, tmp_path / f"plain.{ending}", None)
    found = _predicted(records, tmp_path / f"out.{ending}", "id,text,label,tags")
    for row, wanted, record in zip(found, plain, RECORDS, strict=True):
        assert list(row)[:4] == ["id", "text", "input_label", "tags"]
        copied = [row.pop(name) for name in ("id", "text", "input_label", "tags")]
        tags = json.dumps(record["tags"])
        assert copied == [str(record["id"]), record["text"], record["label"], tags]
        assert row == wanted


def test_columns_follow_the_location_of_the_row(tmp_path):
    (tmp_path / "in.csv").write_text('number,text\n1,the cat\n2,"a dog\n')
    source = str(tmp_path / "in.csv")
    (row,) = _predicted(source, tmp_path / "out.csv", "number", on_bad_text="skip")
    assert list(row)[:3] == ["file", "line", "number"]
    assert (row["file"], row["line"], row["number"]) == (source, "2", "1")


def test_what_cannot_be_copied_is_an_error(records, tmp_path):
    with pytest.raises(UserError, match="Unknown column 'date'. The columns of .* are id, text"):
        _predicted(records, tmp_path / "out.csv", "date")
    with pytest.raises(UserError, match="--keep_columns requires --input. Received: id"):
        predict_texts(CLASSIFIER, ["the cat"], keep_columns="id")
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": "the cat", "id": "a\tb"}) + "\n")
    with pytest.raises(UserError, match="Columns with tabs or line breaks require an --output"):
        _predicted(str(tmp_path / "in.jsonl"), tmp_path / "out.tsv", "id")
    assert not (tmp_path / "out.tsv").exists() and not (tmp_path / "out.csv").exists()
