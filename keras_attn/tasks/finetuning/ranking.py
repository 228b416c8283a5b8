"""Metrics of retrieval and reranking."""

import math

import numpy as np

RETRIEVAL = ("mrr", "recall_at_1", "recall_at_10")


def rank_metrics(ranks):
    """Returns the mean reciprocal rank, and the fractions of ranks up to 1 and up to 10."""
    return {
        "mrr": float(np.mean(1 / ranks)),
        "recall_at_1": float(np.mean(ranks <= 1)),
        "recall_at_10": float(np.mean(ranks <= 10)),
    }


def ranks_in_groups(groups, relevant, scores):
    """Returns the rank of the best relevant row of each group, from 1.

    Ties count against the model: a relevant row ranks below irrelevant rows with the same score,
    and a score that is NaN ranks last.

    Args:
        groups: Names of the groups `(N,)`, each of which has a relevant row.
        relevant: bool `(N,)`.
        scores: `(N,)`.

    Returns:
        int64, in the order in which the groups begin.
    """
    numbers, relevant = _numbers(groups), np.asarray(relevant, bool)
    scores = np.nan_to_num(np.asarray(scores, np.float64), nan=-np.inf)
    best = np.full(numbers.max() + 1, -np.inf)
    np.maximum.at(best, numbers[relevant], scores[relevant])
    return 1 + np.bincount(numbers[~relevant & (scores >= best[numbers])], minlength=len(best))


def mrr_of_random_order(groups, relevant):
    """Returns the expected mean reciprocal rank of the rows of each group in random order.

    Args:
        groups, relevant: See `ranks_in_groups`.
    """
    numbers = _numbers(groups)
    sizes = np.bincount(numbers)
    hits = np.bincount(numbers[np.asarray(relevant, bool)], minlength=len(sizes))
    # The best of r relevant rows among n has rank k in C(n - k, r - 1) of C(n, r) orders.
    expected = [
        sum(math.comb(n - k, r - 1) / k for k in range(1, n - r + 2)) / math.comb(n, r)
        for n, r in zip(sizes.tolist(), hits.tolist(), strict=True)
    ]
    return float(np.mean(expected))


def _numbers(groups):
    known = {}
    return np.array([known.setdefault(group, len(known)) for group in groups])
