"""Warnings about labels, and header lines in files with numbered columns."""

import pytest
from ml_collections import ConfigDict

from keras_attn.data.sources.tables import read_table
from keras_attn.tasks.classification.data_summary import _count_quoted, warn_of_rare_labels
from keras_attn.tasks.classification.splits import drop_headers
from tests.support.small_runs import SmallRun


def _run(**data):
    fields = {
        "text": "0",
        "text_pair": None,
        "label": "1",
        "header": None,
        "format": None,
        "task": None,
        "label_separator": ",",
        "group": None,
        **data,
    }
    return SmallRun(ConfigDict({"data": fields}))


@pytest.mark.parametrize(
    ("labels", "warned"),
    [
        ([f"{n / 10}" for n in range(139)] * 3, True),
        (["0.5", "1.0", "1.5"] * 9, True),
        ([str(n) for n in range(18, 90)] * 3, True),  # ages
        (["1.0", "2.0", "3.0", "4.0", "5.0"] * 9, False),  # stars
        ([str(n) for n in range(151)] * 3, False),  # numbers of classes
        (["1", "2", "5"] * 9, False),
        (["0.5", "1.5", "high"] * 9, False),
    ],
)
def test_scores_as_classes_are_a_warning(labels, warned):
    run = _run()
    warn_of_rare_labels(run, labels)
    assert [line for line in run.said if "use data.task=regression" in line] == run.said
    assert bool(run.said) == warned


def test_a_class_with_the_name_of_a_missing_value_is_named():
    run = _run()
    warn_of_rare_labels(run, ["good", "bad", "nan", "NaN"] * 3)
    assert len(run.said) == 1 and "'NaN' is a class of 3 rows" in run.said[0]


def test_header_lines_are_removed_if_columns_are_numbers(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "".join(f"film {n},{n % 2}\n" for n in range(6)))
    table, run = read_table(str(path), text=0, label=1), _run()
    assert set(drop_headers(run, table).labels) == {"0", "1"}
    assert run.config.data.header is run.resolved["data"]["header"] is True
    assert (
        f"{path}, line 1 contains the column names" in run.said[0]
        and "data.header=False" in run.said[0]
    )
    for given in (
        {"header": False},
        {"header": True},
        {"format": "label_text"},
        {"text": None, "label": None},
        {"text": "text"},
    ):
        run = _run(**given)
        assert drop_headers(run, table) is table and not run.said


def test_texts_that_look_like_csv_fields_are_counted():
    assert _count_quoted(['"a ""b"" c"', "d", '"e"']) == 1
    assert _count_quoted(['"a"', '"b c"']) == 2
    assert _count_quoted(['"a" and "b"', "c", '"']) == 0
