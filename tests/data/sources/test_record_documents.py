"""Records of JSON and tables as documents: what pretraining reads is what finetuning reads."""

import csv
import gzip
import json
from collections import Counter

import pyarrow
import pytest
from pyarrow import parquet

from keras_attn.data.sources.documents import Part, document_of, read_documents, split_files
from keras_attn.data.sources.tables import read_table
from keras_attn.data.sources.text_sources import plan_source, read_task
from keras_attn.errors import UserError


def _read(path, format, **options):
    return list(read_documents(Part(str(path)), format, **options))


def _write(path, text):
    path.write_bytes(text.encode())
    return path


def _records(folder):
    """The same three records, one with awkward text, in files of every format."""
    texts = ["One cat. It sat.", 'A "quoted", long\nline\tof text. The end.', "Three é."]
    folder.mkdir(exist_ok=True)
    with open(folder / "a.csv", "w", newline="") as file:
        csv.writer(file).writerows([["id", "body"], *enumerate(texts)])
    with open(folder / "quoted.tsv", "w", newline="") as file:
        csv.writer(file, delimiter="\t").writerows([["id", "body"], *enumerate(texts)])
    records = [{"id": number, "body": text} for number, text in enumerate(texts)]
    _write(folder / "a.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    _write(folder / "line.json", json.dumps(records))
    (folder / "indented.json.gz").write_bytes(gzip.compress(json.dumps(records, indent=2).encode()))
    parquet.write_table(pyarrow.Table.from_pylist(records), folder / "a.parquet")
    return texts


@pytest.mark.parametrize("verbatim", [False, True])
def test_records_of_every_format_are_the_documents_that_finetuning_reads(tmp_path, verbatim):
    texts = _records(tmp_path / "t")
    expected = [document_of(text, verbatim) for text in texts]
    for path in sorted((tmp_path / "t").iterdir()):
        format = "quoted_tsv" if path.name.startswith("quoted") else "auto"
        plan = plan_source(str(path), format=format, field="body", verbatim=verbatim)
        found = [d for n in range(len(plan["tasks"])) for d in read_task(plan, n, Counter())]
        assert found == expected, path
        table = read_table(str(path), text="body", format=None if format == "auto" else format)
        assert table.texts == texts
        with pytest.raises(UserError, match="'?txet'?.*body|body.*txet"):
            wrong = plan_source(str(path), format=format, field="txet")
            list(read_task(wrong, 0, Counter()))


def test_files_of_records_and_of_text_can_be_read_together(tmp_path):
    texts = _records(tmp_path / "t")
    plain = _write(tmp_path / "plain.txt", "A line.\nAnother one.\n\nA third.\n")
    source = [str(plain), str(tmp_path / "t/a.csv"), str(tmp_path / "t/line.json")]
    plan = plan_source(source, field="body", tokens_per_shard=1)
    found = [d for n in range(len(plan["tasks"])) for d in read_task(plan, n, Counter())]
    records = [document_of(text) for text in texts]
    assert sorted(found) == sorted([["A line.", "Another one."], ["A third."], *2 * records])
    assert plan["format"] == "lines"


def test_a_large_list_of_json_is_one_part_and_its_records_are_read_one_by_one(tmp_path):
    records = [{"text": f'Number {n} \u2028 [{{\\" é.'} for n in range(3000)]
    for indent in (None, 1):
        path = _write(tmp_path / "a.json", json.dumps(records, indent=indent, ensure_ascii=False))
        parts = split_files([str(path)], [10**9], "utf-8", ["jsonl"])
        assert parts == [Part(str(path))]
        found = _read(path, "jsonl", max_line=1000)
        assert found == [document_of(record["text"]) for record in records]
    path = _write(tmp_path / "long.json", json.dumps([{"text": "a"}, {"text": "b" * 10**6}]))
    with pytest.raises(UserError, match="at most 1,000 bytes.*max_line.*long.json, row 2"):
        _read(path, "jsonl", max_line=1000)


def test_records_without_text_are_an_error_or_counted(tmp_path):
    path = _write(tmp_path / "a.json", json.dumps([{"text": "One."}, {"text": 3}, {"text": None}]))
    with pytest.raises(UserError, match="'text' of a record must be text.*bad_text=skip.*row 2"):
        _read(path, "jsonl")
    counts = Counter()
    assert _read(path, "jsonl", on_bad_text="skip", counts=counts) == [["One."]]
    assert counts["lines_skipped"] == 2
