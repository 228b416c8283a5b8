"""Losses of embeddings, compared with loops in NumPy."""

import numpy as np
import pytest
from keras import ops

from keras_attn.ops.contrastive import cosent_loss, cosine_similarity, in_batch_losses


def cosine(a, b):
    return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


@pytest.mark.parametrize("texts, symmetric", [(2, False), (2, True), (4, False), (3, True)])
def test_in_batch_negatives_are_a_softmax_over_all_candidates(texts, symmetric):
    vectors, real = random(5, texts, 7), np.array([1, 1, 0, 1, 1])
    losses, hits = map(np.asarray, in_batch_losses(vectors, real, 0.2, symmetric))
    rows = np.flatnonzero(real)
    for row in range(5):
        if not real[row]:
            assert losses[row] == hits[row] == 0
            continue
        anchor, positive = vectors[row, 0], vectors[row, 1]
        candidates = [vectors[other, k] for k in range(1, texts) for other in rows]
        scores = np.array([cosine(anchor, other) for other in candidates]) / 0.2
        own = cosine(anchor, positive) / 0.2
        expected = np.log(np.exp(scores).sum()) - own
        if symmetric:
            back = np.array([cosine(positive, vectors[other, 0]) for other in rows]) / 0.2
            expected = (expected + np.log(np.exp(back).sum()) - own) / 2
        assert losses[row] == pytest.approx(expected, rel=1e-4)
        assert hits[row] == (own >= scores.max() - 1e-6)


def test_cosent_compares_all_pairs_of_different_scores():
    similarities, scores = random(6), np.array([0.1, 0.5, 0.5, 0.9, 0.2, 1.0], "float32")
    real = np.array([1, 1, 1, 1, 0, 1])
    total = 1.0
    for i in np.flatnonzero(real):
        for j in np.flatnonzero(real):
            if scores[i] < scores[j]:
                total += np.exp((similarities[i] - similarities[j]) / 0.3)
    found = float(cosent_loss(similarities, scores, real, 0.3))
    assert found == pytest.approx(np.log(total), rel=1e-5)
    assert float(cosent_loss(similarities, scores, 0 * real, 0.3)) == 0


def test_the_similarity_of_zeros_is_0():
    x = np.stack([np.zeros(3), [1.0, 2.0, 2.0]]).astype("float32")
    np.testing.assert_allclose(ops.convert_to_numpy(cosine_similarity(x, x)), [0.0, 1.0], 1e-6)
