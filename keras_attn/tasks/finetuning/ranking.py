"""Metrics of retrieval and reranking."""

import numpy as np

RETRIEVAL = ("mrr", "recall_at_1", "recall_at_10")


def rank_metrics(places):
    """Returns the mean reciprocal rank, and the fractions of ranks up to 1 and up to 10."""
    return {
        "mrr": float(np.mean(1 / places)),
        "recall_at_1": float(np.mean(places <= 1)),
        "recall_at_10": float(np.mean(places <= 10)),
    }


def ranks_in_groups(groups, relevant, scores):
    """Returns the rank of the best relevant row of each group, from 1.

    Irrelevant rows with the same score precede it, so that equal scores are no success.

    Args:
        groups: Names of the groups `(N,)`, each of which has a relevant row.
        relevant: bool `(N,)`.
        scores: `(N,)`.

    Returns:
        int64, in the order of the sorted names.
    """
    relevant, scores = np.asarray(relevant, bool), np.asarray(scores, np.float64)
    numbers = np.unique(groups, return_inverse=True)[1]
    best = np.full(numbers.max() + 1, -np.inf)
    np.maximum.at(best, numbers[relevant], scores[relevant])
    return 1 + np.bincount(numbers[~relevant & (scores >= best[numbers])], minlength=len(best))
