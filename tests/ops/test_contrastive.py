"""Losses of embeddings, compared with loops in NumPy."""

import numpy as np
import pytest
from keras import ops

from keras_attn.ops.contrastive import (
    cosent_loss,
    cosine_similarity,
    in_batch_losses,
    similarity_divergences,
)


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


def test_similarities_of_a_teacher_are_compared_between_different_texts():
    own, teacher = random(4, 2, 7), random(4, 2, 5, seed=1)
    numbers = np.array([[0, 1], [2, 2], [3, 4], [0, 5]])  # a copy in its pair, and in another one
    real, texts = np.array([1, 0.5, 0, 2]), [(n, k) for n in range(4) for k in range(2)]
    found = ops.convert_to_numpy(similarity_divergences(own, teacher, numbers, real, 0.2, 3.0))

    def distribution(vectors, place, others):
        scores = np.array([cosine(vectors[place], vectors[other]) for other in others]) / 0.2
        return np.exp(scores / 3.0) / np.exp(scores / 3.0).sum()

    expected = np.zeros(4)
    for place in texts:
        if not real[place[0]]:
            continue
        others = [p for p in texts if real[p[0]] and numbers[p] != numbers[place]]
        p, q = (distribution(vectors, place, others) for vectors in (teacher, own))
        expected[place[0]] += 9.0 * np.sum(p * np.log(p / q)) / 2
    np.testing.assert_allclose(found, expected, 1e-4)
    turned = own @ np.linalg.qr(random(7, 7, seed=2))[0]  # the same similarities
    same = similarity_divergences(own, 3 * turned, numbers, real, 0.2, 3.0)
    np.testing.assert_allclose(ops.convert_to_numpy(same), 0, atol=1e-5)
    alone = similarity_divergences(own[:1], teacher[:1], np.zeros((1, 2)), real[:1], 0.2, 3.0)
    assert float(alone[0]) == 0  # copies of one text
