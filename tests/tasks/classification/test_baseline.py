"""The bag-of-bigrams baseline."""

import sys

import numpy as np
import pytest

from keras_attn.errors import UserError
from keras_attn.tasks.classification import baseline
from keras_attn.tasks.classification.baseline import bag_of_bigrams, bag_of_bigrams_accuracy

GOOD, BAD = ["a good film", "good !", "so good"], ["a bad film", "bad !", "so bad"]
LABELS = ["1"] * 3 + ["0"] * 3


def test_words_are_learned():
    accuracy = bag_of_bigrams_accuracy(GOOD + BAD, LABELS, ["good play", "bad play"], ["1", "0"])
    assert accuracy == 1.0
    half = bag_of_bigrams_accuracy(GOOD + BAD, LABELS, ["good play", "bad play"], ["1", "1"])
    assert half == 0.5


def test_pairs_of_words_are_learned():
    # Each word is as frequent in both classes; only bigrams distinguish them.
    texts = ["not good but bad", "good but not bad"] * 3
    labels = ["0", "1"] * 3
    found = bag_of_bigrams_accuracy(texts, labels, ["not good", "not bad"], ["0", "1"])
    assert found == 1.0


def test_several_labels_and_numbers_are_learned_too():
    labels = np.array([[1, 0, 1], [1, 0, 1], [1, 0, 1], [0, 1, 1], [0, 1, 1], [0, 1, 1]])
    found = bag_of_bigrams(GOOD + BAD, labels, ["good play", "bad play"], "multilabel")
    np.testing.assert_array_equal(found, [[1, 0, 1], [0, 1, 1]])
    # Closed form of ridge regression with intercept: on centered data.
    texts, targets = ["a", "b", "a b", "b b"], np.array([1.0, 2.0, 4.0, 3.0])
    counts = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 0], [0, 2, 0, 1.0]])
    centred = counts - counts.mean(axis=0)
    weights = np.linalg.solve(
        centred.T @ centred + np.eye(4), centred.T @ (targets - targets.mean())
    )
    found = bag_of_bigrams(texts, targets, texts, "regression")
    np.testing.assert_allclose(found, targets.mean() + centred @ weights, rtol=1e-3)


def test_where_weights_are_few_the_most_frequent_words_count(monkeypatch):
    texts = [f"{text} so so so" for text in GOOD + BAD]
    assert bag_of_bigrams_accuracy(texts, LABELS, texts, LABELS) == 1.0
    monkeypatch.setattr(baseline, "MAX_WEIGHTS", 2)  # one for each class: "so"
    assert bag_of_bigrams_accuracy(texts, LABELS, texts, LABELS) < 1.0


def test_the_extra_is_named_where_scikit_learn_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    with pytest.raises(UserError, match=r"keras-attn\[report\]"):
        bag_of_bigrams_accuracy(GOOD + BAD, LABELS, GOOD, LABELS[:3])
