import json

import numpy as np
import pytest
from absl.testing import flagsaver

from benchmarks.cached import cached
from benchmarks.mechanisms.runs import (
    BEGIN,
    END,
    UNKNOWN,
    Vocabulary,
    batches_by_length,
    decoded,
    padded,
    results,
    words_of,
)
from benchmarks.mechanisms.summaries import Rows, f1


def test_a_vocabulary_has_words_that_occur_at_least_twice():
    vocabulary = Vocabulary([words_of("The cat, the dog."), words_of("A cat. And?")])
    assert sorted(vocabulary.words) == sorted(["the", "cat", "."])
    assert len(vocabulary) == 3 + END + 1
    known = vocabulary.ids(["the", "dog", "cat"])
    assert known[1] == UNKNOWN and {known[0], known[2]} <= {4, 5, 6} and known[0] != known[2]


def test_rows_are_truncated_or_padded():
    np.testing.assert_array_equal(padded([[1, 2, 3], [4], []], 2), [[1, 2], [4, 0], [0, 0]])


def test_out_of_vocabulary_words_get_ids_if_the_source_has_them():
    vocabulary = Vocabulary([["a", "a", "b", "b"]])
    a, b = vocabulary.ids(["a", "b"])
    first, second = len(vocabulary), len(vocabulary) + 1
    rows = Rows([(["a", "x", "y", "x"], ["y", "x", "b", "z"]), (["b"], ["a"])], vocabulary)
    assert rows.names == [["x", "y"], []] and rows.num_oov == 2
    assert list(rows.arrays["token_ids"][0, :4]) == [a, first, second, first]
    assert list(rows.arrays["label"][0, :5]) == [second, first, b, UNKNOWN, END]
    assert list(rows.arrays["target_ids"][0, :5]) == [BEGIN, second, first, b, UNKNOWN]
    assert list(rows.without_copies()["label"][0, :5]) == [UNKNOWN, UNKNOWN, b, UNKNOWN, END]
    assert rows.outside == pytest.approx(3 / 5) and rows.impossible == pytest.approx(1 / 5)


def test_decoded_ids_become_the_words_of_their_example():
    vocabulary = Vocabulary([["a", "a"]])
    name = len(vocabulary)

    def search(inputs):
        found = np.array([[4, name, END], [UNKNOWN, name, name]])
        return {"token_ids": found, "lengths": np.array([3, 2])}

    texts = decoded(search, {"token_ids": np.zeros((2, 1), "int32")}, vocabulary, [["x"], []])
    assert texts == [["a", "x"], ["<unk>", "<unk>"]]


def test_f1_counts_words_with_their_multiplicity():
    assert f1(["a", "a", "b"], ["a", "c", "."]) == pytest.approx(2 / 5)
    assert f1([], ["."]) == 1.0


def test_batches_by_length_have_every_example_and_little_padding():
    random = np.random.default_rng(0)
    ids = padded([range(1, length + 1) for length in random.integers(1, 30, 120)], 30)
    ids[:12] = 0  # enough for a batch of padding only
    rows = {"token_ids": ids, "mask": np.minimum(ids, 1), "number": np.arange(120)}
    order = np.concatenate([random.permutation(120), random.permutation(120)])
    batches = list(batches_by_length(rows, order, 5, 20, random).as_numpy_iterator())
    assert len(batches) == 48
    numbers = [batch["number"] for batch in batches]
    np.testing.assert_array_equal(np.sort(np.concatenate(numbers)), np.sort(order))
    for own, batch in zip(numbers, batches, strict=True):
        width = max(np.count_nonzero(ids[own], axis=1).max(), 1)
        np.testing.assert_array_equal(batch["token_ids"], ids[own, :width])
        np.testing.assert_array_equal(batch["mask"], ids[own, :width] > 0)
    held = sum(batch["token_ids"].size for batch in batches)
    assert held < 1.3 * 2 * np.count_nonzero(ids) < 2 * ids.size


def test_a_result_is_cached_for_its_settings_only(tmp_path):
    path, made = str(tmp_path / "a" / "found.json"), []
    assert cached(path, {"rate": 1}, lambda: made.append(1) or [5.0]) == [5.0]
    assert cached(path, {"rate": 1}, lambda: made.append(2)) == [5.0]
    assert made == [1]
    with pytest.raises(Exception, match="rate"):
        cached(path, {"rate": 2}, lambda: made.append(3))
    assert made == [1]


def test_a_row_has_the_mean_over_seeds_and_the_weights_without_vocabulary(tmp_path, capsys):
    import keras

    class Squared(keras.Model):
        def compute_loss(self, x=None, y=None, y_pred=None, *_, **__):
            return keras.ops.mean(keras.ops.square(y_pred))

    def make(seed):
        inputs = {"x": keras.Input((3,), name="x")}
        outputs = keras.layers.Dense(2)(inputs["x"])
        return Squared(inputs, outputs)

    rows = {"x": np.ones((8, 3), "float32")}
    with flagsaver.as_parsed(output=str(tmp_path), seeds="2", kinds=["the name"]):
        for name in ("the name", "another name", "the name"):
            results(
                name,
                {},
                lambda model: [50.0, 3.0],
                make,
                {"rows": rows, "steps": 2, "batch_size": 4, "rate": 0.1},
            )
    first, again = capsys.readouterr().out.splitlines()
    assert first == again
    assert "| the name | 50.0" in first and "| 8 |" in first
    assert len(list(tmp_path.glob("*.json"))) == 2
    assert json.loads((tmp_path / "the-name-0.json").read_text())["settings"]["steps"] == 2
