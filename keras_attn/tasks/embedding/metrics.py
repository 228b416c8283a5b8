"""Metrics of embeddings: correlation with scores, and retrieval."""

import numpy as np
from keras import ops

from keras_attn.ops.contrastive import cosent_loss, cosine_similarity, in_batch_losses
from keras_attn.tasks.embedding.fields import SCORED
from keras_attn.tasks.finetuning.correlations import pearson, spearman
from keras_attn.tasks.finetuning.ranking import RETRIEVAL, rank_metrics

_CHUNK = 1024  # queries whose similarities are in memory
_ROUNDING = 1e-6  # of similarities in float32


def metric_names(columns):
    """Returns the names of the metrics of data with these columns; see `read_groups`."""
    if columns["label"] is not None:
        return SCORED
    return RETRIEVAL if columns["text_pair"] is not None else ()


def similarities(vectors):
    """Returns the cosine similarity of the first two texts of each group, `(N,)`.

    Args:
        vectors: `(N, 2, E)`.
    """
    return ops.convert_to_numpy(cosine_similarity(vectors[:, 0], vectors[:, 1]))


def ranks(queries, documents, texts):
    """Returns the rank of document i among all documents for query i, from 1: `(N,)`.

    Args:
        queries, documents: `(N, E)`.
        texts: The documents as strings; see `ranks_of_similarities`.
    """
    queries, documents = (
        x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
        for x in (queries, documents)
    )
    return ranks_of_similarities(
        (queries[start : start + _CHUNK] @ documents.T for start in range(0, len(queries), _CHUNK)),
        texts,
    )


def ranks_of_similarities(chunks, texts):
    """Returns the rank of document i among all documents for query i, from 1: `(N,)`.

    Documents with the same similarity up to rounding are in random order: half of the others
    precede document i. Copies of document i never do, as each of them is right.

    Args:
        chunks: Similarities of all documents for consecutive queries, arrays `(n, N)`.
        texts: The documents, N strings.
    """
    known = {}
    numbers = np.array([known.setdefault(text, len(known)) for text in texts])
    found, start = [], 0
    for scores in chunks:
        rows = start + np.arange(len(scores))
        own = scores[rows - start, rows][:, None]
        others = numbers != numbers[rows][:, None]
        ahead = np.sum(others & (scores > own + _ROUNDING), axis=1)
        ties = np.sum(others & (np.abs(scores - own) <= _ROUNDING), axis=1)
        found.append(1 + ahead + ties // 2)
        start += len(scores)
    return np.concatenate(found)


def embedding_metrics(vectors, groups):
    """Returns the metrics of the embeddings of groups.

    Args:
        vectors: `(N, 2 or more, E)`; the metrics of retrieval are of the first texts as queries
            among all second texts.
        groups: Their `Groups`; without scores, the metrics are those of retrieval.

    Returns:
        Dict of the metrics `SCORED` or `RETRIEVAL`.
    """
    if groups.scores is not None:
        found = similarities(vectors)
        return {
            "spearman": spearman(groups.scores, found),
            "pearson": pearson(groups.scores, found),
        }
    return rank_metrics(ranks(vectors[:, 0], vectors[:, 1], groups.columns[1]))


def loss_of_batches(vectors, scores, heads, batch_size):
    """Returns the mean loss over batches of consecutive groups.

    Args:
        vectors: `(N, …, E)`.
        scores: `(N,)`, or None.
        heads: Arguments of `TextEmbedder`.
        batch_size: Groups in a batch; the last one may be smaller.
    """
    total = 0.0
    for start in range(0, len(vectors), batch_size):
        part = vectors[start : start + batch_size]
        real = np.ones(len(part), np.float32)
        if heads["loss"] == "cosent":
            labels = scores[start : start + batch_size]
            found = cosent_loss(similarities(part), labels, real, heads["temperature"])
            total += len(part) * float(found)
        else:
            losses, _ = in_batch_losses(part, real, heads["temperature"], heads["symmetric"])
            total += float(ops.sum(losses))
    return total / len(vectors)
