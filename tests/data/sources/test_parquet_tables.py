"""Tables of Parquet against the same values in JSON Lines."""

import datetime
import decimal
import json
import sys

import pyarrow as arrow
import pytest
from pyarrow import parquet

from keras_attn.data.sources.tables import read_table
from keras_attn.errors import UserError
from tests.support.refused_tables import refused


def test_parquet_gives_what_the_same_values_give_in_jsonl(tmp_path):
    columns = {
        "text": ['tab\tquote" é', "", None, "🙂 last"],
        "whole": [3, -1, 0, 7],
        "share": [0.5, 2.0, -1e-9, 1e30],
        "flag": [True, False, True, False],
        "labels": [["a", "b, c"], [], ["é"], None],
    }
    table = arrow.table(columns)
    table = table.append_column("folded", table["text"].dictionary_encode())
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=3)
    (tmp_path / "t.jsonl").write_text(
        "".join(
            json.dumps({**dict(zip(columns, row, strict=True)), "folded": row[0]}) + "\n"
            for row in zip(*columns.values(), strict=True)
        )
    )
    for name in (*columns, "folded"):
        found, expected = (
            read_table(str(tmp_path / f"t.{format}"), text="text", label=name, unlabelled=True)
            for format in ("parquet", "jsonl")
        )
        assert (found.texts, found.labels) == (expected.texts, expected.labels), name
    assert found.where(3) == f"{tmp_path}/t.parquet, row 4"


def test_parquet_without_pyarrow_is_one_line(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    path.write_text("PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"pip install pyarrow\). Received: .*t.parquet \(.+\)"):
        read_table(str(path), text="text")


def test_what_is_no_parquet_or_has_no_rows_is_said(tmp_path):
    table = arrow.table({"text": ["a"], "label": ["b"]})
    parquet.write_table(table, tmp_path / "whole.parquet")
    parquet.write_table(table.slice(0, 0), tmp_path / "empty.parquet")
    data = (tmp_path / "whole.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(data[:-9])
    (tmp_path / "none.parquet").write_bytes(b"")
    for name, message in (
        ("empty", "empty.parquet has no rows"),
        ("cut", "Cannot read the Parquet file .*cut"),
        ("none", "Cannot read the Parquet file .*none"),
    ):
        refused(message, str(tmp_path / f"{name}.parquet"), label="label")
    with pytest.raises(UserError, match="Did you mean label"):
        read_table(str(tmp_path / "whole.parquet"), text="text", label="lable")


def test_decimals_and_dates_of_parquet_are_written_as_they_are(tmp_path):
    parquet.write_table(
        arrow.table(
            {
                "text": ["a", "b"],
                "score": [decimal.Decimal("1.50"), decimal.Decimal("-2.25")],
                "day": [datetime.date(2020, 1, 2), None],
            }
        ),
        tmp_path / "a.parquet",
    )
    table = read_table(str(tmp_path / "a.parquet"), text="day", label="score")
    assert (list(table.texts), list(table.labels)) == (["2020-01-02", ""], ["1.50", "-2.25"])
