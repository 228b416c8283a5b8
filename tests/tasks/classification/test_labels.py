"""Labels as they stand in tables: classes, any number of them a row, numbers."""

from types import SimpleNamespace

import numpy as np
import pytest

from keras_attn.errors import UserError
from keras_attn.tasks.classification.labels import (
    LabelSet,
    balanced_weights,
    encode_scores,
    split_labels,
)
from keras_attn.tasks.classification.task import _label_scale


def test_labels_are_sorted_by_name_or_number():
    assert LabelSet.from_labels(["b", "a", "b"]).names == ("a", "b")
    assert LabelSet.from_labels(["10", "2", "-1"]).names == ("-1", "2", "10")
    assert LabelSet.from_labels(["1", "01", "2", "02"]).names == ("01", "1", "02", "2")
    labels = LabelSet(["no", "yes"], aliases={"0": "no", "1": "yes"})
    encoded = labels.encode(["yes", "0", "no", "1"])
    assert encoded.tolist() == [1, 0, 0, 1] and encoded.dtype == np.int32


def test_unknown_labels_are_named_with_their_row():
    labels = LabelSet(["positive", "negative"])
    message = "positive, negative.*'positve' at row 1. Did you mean positive"
    with pytest.raises(UserError, match=message):
        labels.encode(["positive", "positve"])
    with pytest.raises(UserError, match="at dev.tsv, line 9"):
        labels.encode(["neutral"], where=lambda row: "dev.tsv, line 9")
    with pytest.raises(UserError, match="training data: no, 'yes '. Received: 'yes' at"):
        LabelSet(["no", "yes "]).encode(["yes"])


@pytest.mark.parametrize("labels", [["a", "a"], ["Good", "good", "x"], ["a ", "a"]])
def test_label_sets_that_cannot_be_meant_are_errors(labels):
    with pytest.raises(UserError, match="Received"):
        LabelSet.from_labels(labels)


def test_scores_are_finite_numbers():
    scores = encode_scores(["1", "2.5", "-1e-3"])
    np.testing.assert_array_equal(scores, np.float32([1, 2.5, -0.001]))
    for bad in ("", "much", "nan", "inf", "1e99", "-1e38"):
        with pytest.raises(UserError, match="row 1"):
            encode_scores(["1", bad, "worse"])


def test_classes_weigh_the_same_and_one_in_the_mean():
    labels = np.array([0, 0, 0, 2, 2, 0, 0, 3], np.int32)
    weights = balanced_weights(labels)
    np.testing.assert_allclose(weights.mean(), 1.0)
    np.testing.assert_allclose(np.bincount(labels, weights)[[0, 2, 3]], 8 / 3, rtol=1e-6)


def test_the_scale_of_tiny_scores_is_not_lost():
    scores = encode_scores(["1e-30", "3e-30"])
    scale = _label_scale(SimpleNamespace(resumed=False), scores, new=True)
    np.testing.assert_allclose(list(scale.values()), [2e-30, 1e-30], rtol=1e-6)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("red, blue ", ["red", "blue"]),
        ("", []),
        (" , red", ["red"]),
        (' ["red", " a, b ", 3, true]', ["red", "a, b", "3", "true"]),
        ("[]", []),
    ],
)
def test_several_labels_stand_between_separators_or_in_a_list(text, expected):
    assert split_labels(text, ",", 0) == expected


@pytest.mark.parametrize(
    "text",
    [
        "['red', 'blue']",  # as pandas writes lists to CSV
        "[red, blue]",
        '["red", null]',
        '[["red"]]',
        '["red"] and more',
        "[" * 100_000,
    ],
)
def test_what_begins_like_a_list_must_be_one(text):
    labels = ["red", "blue", text]
    with pytest.raises(UserError, match="JSON list.*at a.csv, line 7"):
        LabelSet.from_lists(labels, ",", lambda row: f"a.csv, line {row + 5}")
    with pytest.raises(UserError, match="JSON list.*at row 2"):
        LabelSet(["red", "blue"]).encode_lists(labels, ",")


def test_labels_of_lists_become_a_column_each():
    labels = LabelSet.from_lists(["red,blue", "", '["green"]'], ",")
    assert labels.names == ("blue", "green", "red")
    found = labels.encode_lists(["red", "green, red", ""], ",")
    np.testing.assert_array_equal(found, np.float32([[0, 0, 1], [0, 1, 1], [0, 0, 0]]))


@pytest.mark.parametrize(
    "labels, message",
    [
        (["red", "", "red"], "two labels.*only 'red'"),
        (["", " "], "Received: no labels"),
        (["red", '["green, or blue"]'], "must not contain data.label_separator.*'green, or blue'"),
    ],
)
def test_multilabel_rows_without_two_labels_are_errors(labels, message):
    with pytest.raises(UserError, match=message):
        LabelSet.from_lists(labels, ",")


def test_the_positive_class_comes_last():
    labels = ["normal", "fraud", "normal"]
    assert LabelSet.from_labels(labels).names == ("fraud", "normal")
    assert LabelSet.from_labels(labels, "fraud").names == ("normal", "fraud")
    assert LabelSet.from_labels(["1", "0"], "0").names == ("1", "0")
    with pytest.raises(UserError, match="positive.*Did you mean fraud"):
        LabelSet.from_labels(labels, "Fraud ")
    with pytest.raises(UserError, match="requires two classes. Leave it unset"):
        LabelSet.from_labels([*labels, "other"], "fraud")


def test_a_number_with_a_decimal_point_and_without_is_no_two_classes():
    for labels in (["1", "1.0", "0"], ["-2.00", "-2"]):
        with pytest.raises(UserError, match="Unify them.*'-?[12]' and '-?[12]."):
            LabelSet.from_labels(labels)
    for labels in (["1.5", "1.50"], ["1.", "1"], ["+1", "1"]):
        with pytest.raises(UserError, match="Unify them"):
            LabelSet.from_labels(labels)
    assert LabelSet.from_labels(["1.0", "1.1", "10"]).names == ("1.0", "1.1", "10")
    assert LabelSet.from_labels(["1.2.0", "1.2"]).names == ("1.2", "1.2.0")
    assert split_labels('[1.0, 2, "2", 1, 2.5]', ",", 0) == ["1", "2", "2", "1", "2.5"]
    with pytest.raises(UserError, match=r"Received: '\[1, NaN\]'"):
        split_labels("[1, NaN]", ",", 0)


@pytest.mark.parametrize("labels", [["caf\u00e9", "cafe\u0301"], ["\uff21", "A"], ["ß", "SS"]])
def test_labels_that_unicode_writes_in_two_ways_are_no_two_classes(labels):
    with pytest.raises(UserError, match="Unify them"):
        LabelSet.from_labels(labels)


@pytest.mark.parametrize("missing", ["nan", "NaN", "NA", "null", "-inf"])
def test_a_missing_label_among_numbers_is_no_class(missing):
    with pytest.raises(UserError, match=f"must not be missing.*'{missing}' among"):
        LabelSet.from_labels(["1", "0", "-2.5", missing])
    assert missing in LabelSet.from_labels(["eng", "deu", missing]).names
