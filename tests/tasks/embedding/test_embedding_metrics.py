"""Metrics of embeddings, compared with loops."""

import types

import numpy as np
import pytest
import scipy.stats

from keras_attn.errors import UserError
from keras_attn.tasks.embedding.groups import Groups
from keras_attn.tasks.embedding.metrics import (
    embedding_metrics,
    loss_of_batches,
    ranks,
)
from keras_attn.tasks.embedding.report import text_baseline
from keras_attn.tasks.embedding.task import TASK

VECTORS = np.random.default_rng(0).normal(size=(30, 2, 5)).astype("float32")
TEXTS = [f"document {n}" for n in range(30)]


def cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def test_ranks_count_the_documents_with_a_higher_similarity():
    documents = VECTORS[:, 1].copy()
    documents[7] = documents[3]
    texts = [*TEXTS[:7], TEXTS[3], *TEXTS[8:]]  # a copy precedes neither
    found = ranks(VECTORS[:, 0], documents, texts)
    for n in range(30):
        scores = [cosine(VECTORS[n, 0], other) for other in documents]
        assert found[n] == 1 + sum(score > scores[n] + 1e-6 for score in scores)
    metrics = embedding_metrics(VECTORS, Groups([TEXTS, TEXTS], None, ()))
    places = ranks(VECTORS[:, 0], VECTORS[:, 1], TEXTS)
    assert metrics["mrr"] == pytest.approx(np.mean(1 / places))
    assert metrics["recall_at_1"] == np.mean(places == 1)
    assert metrics["recall_at_10"] == np.mean(places <= 10)


def test_equal_vectors_of_different_texts_have_no_order():
    """A model whose vectors are all equal retrieves nothing."""
    same = np.ones((30, 2, 5), np.float32)
    assert ranks(same[:, 0], same[:, 1], TEXTS).tolist() == [15] * 30
    assert embedding_metrics(same, Groups([TEXTS, TEXTS], None, ()))["mrr"] == 1 / 15
    assert ranks(same[:, 0], same[:, 1], ["a"] * 30).tolist() == [1] * 30


def test_scores_are_compared_with_cosine_similarities():
    scores = np.random.default_rng(1).integers(0, 6, 30).astype("float32")
    found = [cosine(*pair) for pair in VECTORS]
    metrics = embedding_metrics(VECTORS, Groups([TEXTS, TEXTS], scores, ()))
    assert metrics["spearman"] == pytest.approx(scipy.stats.spearmanr(scores, found)[0])
    assert metrics["pearson"] == pytest.approx(scipy.stats.pearsonr(scores, found)[0], abs=1e-6)


@pytest.mark.parametrize("label", [None, "s"])
def test_evaluation_requires_pairs(label):
    model = types.SimpleNamespace(config={"data": {"text": "x"}})
    reading = {"text": None, "text_pair": None}
    with pytest.raises(UserError, match="requires pairs .*: text=x, text_pair=None"):
        TASK.evaluate(model, "rows.tsv", 8, reading, {"label": label})


def test_the_loss_is_a_mean_over_batches():
    heads = {"loss": "in_batch_negatives", "temperature": 0.5, "symmetric": False}
    total = 0.0
    for rows in (range(0, 20), range(20, 30)):
        for n in rows:
            scores = np.array([cosine(VECTORS[n, 0], VECTORS[k, 1]) for k in rows]) / 0.5
            total += np.log(np.exp(scores).sum()) - scores[n - rows[0]]
    assert loss_of_batches(VECTORS, None, heads, 20) == pytest.approx(total / 30, rel=1e-5)


def test_the_baseline_counts_shared_words():
    texts = [f"w{n} x{n} the" for n in range(12)]
    train = Groups([texts, texts[::-1]], None, ())
    assert text_baseline(train, Groups([texts, texts], None, ()))["recall_at_1"] == 1.0
    shifted = Groups([texts, texts[1:] + texts[:1]], None, ())
    assert text_baseline(train, shifted)["recall_at_1"] == 0.0
    none = [f"none{n}" for n in range(12)]
    tie = Groups([texts, none], None, ())  # of 12
    assert text_baseline(train, tie)["mrr"] == pytest.approx(1 / 6)
    copies = Groups([texts, ["none"] * 12], None, ())
    assert text_baseline(train, copies)["mrr"] == 1.0
    scored = Groups([texts, [texts[0]] * 12], np.arange(12.0)[::-1].astype("float32"), ())
    assert text_baseline(train, scored)["spearman"] > 0
    assert text_baseline(Groups([["!"]], None, ()), shifted) is None
