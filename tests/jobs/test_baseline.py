"""The bag-of-bigrams baseline."""

import sys

import pytest

from keras_attn.errors import UserError
from keras_attn.jobs import baseline
from keras_attn.jobs.baseline import bag_of_bigrams_accuracy

GOOD, BAD = ["a good film", "good !", "so good"], ["a bad film", "bad !", "so bad"]
LABELS = ["1"] * 3 + ["0"] * 3


def test_words_are_learned():
    accuracy = bag_of_bigrams_accuracy(GOOD + BAD, LABELS, ["good play", "bad play"], ["1", "0"])
    assert accuracy == 1.0
    half = bag_of_bigrams_accuracy(GOOD + BAD, LABELS, ["good play", "bad play"], ["1", "1"])
    assert half == 0.5


def test_pairs_of_words_are_learned():
    # Each word is as frequent in both classes; only neighbours tell.
    texts = ["not good but bad", "good but not bad"] * 3
    labels = ["0", "1"] * 3
    found = bag_of_bigrams_accuracy(texts, labels, ["not good", "not bad"], ["0", "1"])
    assert found == 1.0


def test_where_weights_are_few_the_most_frequent_words_count(monkeypatch):
    texts = [f"{text} so so so" for text in GOOD + BAD]
    assert bag_of_bigrams_accuracy(texts, LABELS, texts, LABELS) == 1.0
    monkeypatch.setattr(baseline, "MOST_WEIGHTS", 2)  # one for each class: "so"
    assert bag_of_bigrams_accuracy(texts, LABELS, texts, LABELS) < 1.0


def test_the_extra_is_named_where_scikit_learn_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    with pytest.raises(UserError, match=r"keras-attn\[report\]"):
        bag_of_bigrams_accuracy(GOOD + BAD, LABELS, GOOD, LABELS[:3])
