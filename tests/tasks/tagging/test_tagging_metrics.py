"""Metrics of tags, compared with sets of entities."""

import numpy as np
import pytest

from keras_attn.tasks.tagging.metrics import (
    mean_scores,
    metric_names,
    scores_by_type,
    tag_metrics,
)
from keras_attn.tasks.tagging.schemes import entities

NAMES = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def random_tags(seed):
    random = np.random.default_rng(seed)
    return [[NAMES[n] for n in random.integers(0, 5, size)] for size in random.integers(1, 9, 30)]


def spans(sentences, kind=None):
    return {
        (row, *entity)
        for row, tags in enumerate(sentences)
        for entity in entities(tags)
        if kind in (None, entity[0])
    }


def scores(labeled, found):
    precision = len(labeled & found) / max(1, len(found))
    recall = len(labeled & found) / max(1, len(labeled))
    return precision, recall, 2 * len(labeled & found) / max(1, len(labeled) + len(found))


def test_entities_are_correct_with_their_type_and_both_ends():
    actual = random_tags(0)
    predicted = [
        own if n % 2 else other
        for n, (own, other) in enumerate(
            zip(actual, [[tag.replace("LOC", "PER") for tag in row] for row in actual], strict=True)
        )
    ]
    found = tag_metrics(actual, predicted, "iob2")
    precision, recall, f1 = scores(spans(actual), spans(predicted))
    assert 0.1 < f1 < 0.9
    assert found["precision"] == pytest.approx(precision)
    assert found["recall"] == pytest.approx(recall) and found["f1"] == pytest.approx(f1)
    words = [
        a == b for x, y in zip(actual, predicted, strict=True) for a, b in zip(x, y, strict=True)
    ]
    assert found["accuracy"] == pytest.approx(np.mean(words))
    for kind, own in scores_by_type(actual, predicted, "iob2").items():
        wanted = scores(spans(actual, kind), spans(predicted, kind))
        assert [own[name] for name in ("precision", "recall", "f1")] == pytest.approx(wanted)
        assert own["count"] == len(spans(actual, kind))


def test_sentences_without_entities_have_an_f1_of_0():
    assert tag_metrics([["O"]], [["O"]], "iob2") == {
        "f1": 0.0, "precision": 0.0, "recall": 0.0, "accuracy": 1.0
    }  # fmt: skip
    assert scores_by_type([["O"]], [["O"]], "iob2") == {}


def test_raw_tags_have_accuracy_and_scores_by_tag():
    actual, predicted = [["N", "V"], ["N", "X"]], [["N", "N"], ["N", "V"]]
    assert metric_names("raw") == ("accuracy",)
    assert tag_metrics(actual, predicted, "raw") == {"accuracy": 0.5}
    found = scores_by_type(actual, predicted, "raw")
    assert found["N"] == {"precision": 2 / 3, "recall": 1.0, "f1": 0.8, "count": 2}
    assert found["V"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "count": 1}
    assert list(found) == ["N", "V", "X"]


def test_scores_of_runs_are_averaged():
    actual = [["B-X", "O"]]
    runs = [scores_by_type(actual, own, "iob2") for own in ([["B-X", "O"]], [["O", "B-Y"]])]
    found = mean_scores(runs)
    assert found["X"] == {"precision": 0.5, "recall": 0.5, "f1": 0.5, "count": 1}
    assert found["Y"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "count": 0}
