"""First vectors of tokens against the definitions, loop by loop, with NumPy's whole SVD."""

import itertools

import numpy as np
import pytest

from keras_attn.tasks.pretraining import cooccurrences
from keras_attn.tasks.pretraining.cooccurrences import cooccurrence_vectors

SPECIAL = [0, 1]


def _expected(rows, size, width, contexts):
    """Cosines of the vectors, and which tokens have one: a turn of all changes no cosine."""
    counts = np.zeros((size, size))
    for row in rows.tolist():
        for i, j in itertools.permutations(range(len(row)), 2):
            between = row[min(i, j) : max(i, j) + 1]
            if abs(i - j) <= 5 and not set(between) & set(SPECIAL):
                counts[row[i], row[j]] += 1 / abs(i - j)
    counts = counts[:, contexts]
    chance = counts.sum(0) ** 0.75 / (counts.sum(0) ** 0.75).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.log(counts / counts.sum(1, keepdims=True) / chance)
    information = np.where(counts > 0, np.maximum(information, 0), 0)
    left, values, _ = np.linalg.svd(information, full_matrices=False)
    met = information.any(axis=1)
    vectors = left[:, :width] * np.sqrt(values[:width])
    vectors -= vectors[met].mean(axis=0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors @ vectors.T) * np.outer(met, met), met


def _rows(size, seed=0):
    """Rows of tokens that prefer those near them in number; the last token never occurs."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(-3, 4, (40, 30)).cumsum(axis=1) + rng.integers(0, size, (40, 1))
    return (steps % (size - 1)).astype(np.int32)


@pytest.mark.parametrize("width", [3, 8, 23])
def test_vectors_are_those_of_the_definition(width):
    rows = _rows(24)
    vectors = cooccurrence_vectors(rows, 24, width, SPECIAL)
    cosines, met = _expected(rows, 24, width, range(24))
    assert vectors.shape == (24, width) and vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors.any(axis=1), met)
    assert not met[[0, 1, 23]].any() and met[2:23].all()
    np.testing.assert_allclose(vectors @ vectors.T, cosines, atol=2e-5)


def test_contexts_are_the_most_frequent_tokens_where_the_table_would_be_too_large(monkeypatch):
    rows = _rows(24, seed=1)
    monkeypatch.setattr(cooccurrences, "_CELLS", 24 * 10)
    monkeypatch.setattr(cooccurrences, "_OVERSAMPLING", 4)
    frequency = np.bincount(rows.ravel(), minlength=24)
    frequency[SPECIAL] = 0
    contexts = np.argsort(-frequency, kind="stable")[:10]
    vectors = cooccurrence_vectors(rows, 24, 6, SPECIAL)
    np.testing.assert_allclose(vectors @ vectors.T, _expected(rows, 24, 6, contexts)[0], atol=2e-5)


def test_a_decomposition_of_fewer_columns_than_tokens_comes_near(monkeypatch):
    monkeypatch.setattr(cooccurrences, "_OVERSAMPLING", 12)
    rows = np.concatenate([_rows(200, seed) for seed in range(20)])
    vectors = cooccurrence_vectors(rows, 200, 8, SPECIAL)
    cosines, met = _expected(rows, 200, 8, range(200))
    assert met.sum() == 197
    found = vectors @ vectors.T
    assert np.corrcoef(found.ravel(), cosines.ravel())[0, 1] > 0.998
    np.testing.assert_allclose(found, cosines, atol=0.1)


def test_there_are_more_contexts_than_columns_however_short_the_text():
    rows = np.arange(2, 302, dtype=np.int32).reshape(10, 30)
    vectors = cooccurrence_vectors(rows, 2000, 40, SPECIAL)[2:302]
    assert np.linalg.matrix_rank(vectors, tol=1e-3) == 40


def test_tokens_used_alike_are_alike():
    rng = np.random.default_rng(0)
    # Tokens 2 and 3 stand for each other; 4 to 9 and 10 to 15 are two topics.
    rows = rng.integers(4, 10, (200, 20)) + 6 * rng.integers(0, 2, (200, 1))
    rows[:100][rng.random((100, 20)) < 0.2] = 2
    rows[:100][rng.random((100, 20)) < 0.2] = 3
    vectors = cooccurrence_vectors(rows.astype(np.int32), 16, 4, SPECIAL)
    assert vectors[2] @ vectors[3] > 0.9
    assert vectors[4:10].mean(axis=0) @ vectors[10:].mean(axis=0) < 0


@pytest.mark.parametrize(
    "rows", [np.zeros((2, 8), np.int32), np.full((1, 5), 3, np.int32), np.zeros((0, 8), np.int32)]
)
@pytest.mark.filterwarnings("error")
def test_texts_of_next_to_nothing_give_finite_vectors(rows):
    vectors = cooccurrence_vectors(rows, 6, 9, SPECIAL)
    assert vectors.shape == (6, 9) and np.isfinite(vectors).all()
    assert not vectors[[0, 1, 2, 4, 5]].any()


def test_wider_vectors_than_the_vocabulary_keep_their_length_and_one_seed_its_result():
    first, again = (cooccurrence_vectors(_rows(24), 24, 40, SPECIAL, seed=5) for _ in range(2))
    np.testing.assert_allclose(np.linalg.norm(first[2:23], axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - cooccurrence_vectors(_rows(24), 24, 40, SPECIAL, seed=6)).max() > 0.1
