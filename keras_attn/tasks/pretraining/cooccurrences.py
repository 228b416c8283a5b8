"""Initial token embeddings from cooccurrence counts.

A masked language model needs most of its first steps to learn which tokens are similar.
Cooccurrence counts of millions of tokens contain this information and take seconds.
"""

import numpy as np

_WINDOW = 5  # tokens on each side; a token at distance d counts 1 / d
_CELLS = 2**26  # of the matrix of counts, half a gigabyte; fewer for short texts
_CELLS_PER_TOKEN = 32
_SMOOTHING = 0.75  # exponent of the context counts, which lowers the weight of rare contexts
_OVERSAMPLING = 64  # additional columns of the randomized decomposition
_ITERATIONS = 3  # power iterations


def cooccurrence_vectors(rows, vocabulary_size, size, special_ids, seed=0):
    """Returns token vectors whose products approximate the pointwise mutual information.

    They are the `size` largest left singular vectors of the positive pointwise mutual information
    of tokens and frequent context tokens, times the square roots of the singular values, centered,
    randomly rotated and normalized.

    Args:
        rows: Token ids, int `(B, T)`.
        vocabulary_size: Number of tokens V.
        size: Size D of a vector.
        special_ids: Ids without a vector, across which tokens do not cooccur.
        seed: Integer seed of the rotation and the decomposition.

    Returns:
        float32 `(V, D)`; zeros for tokens without a cooccurrence.

    References:
        Levy, Goldberg & Dagan, Improving Distributional Similarity with Lessons Learned from Word
        Embeddings, 2015, sections 2 and 3.
        Halko, Martinsson & Tropp, Finding Structure with Randomness, 2011, algorithms 4.4, 5.1.
    """
    rng = np.random.default_rng(seed)
    information = _information(_count(rows, vocabulary_size, size, special_ids))
    met = information.any(axis=1)
    vectors, contexts = _decompose(information, min(size, *information.shape), rng)
    vectors -= met @ vectors / max(met.sum(), 1)
    # The rotation depends on the signs and axes of the decomposition, which differ by machine.
    left, _, right = np.linalg.svd(
        contexts.T @ rng.normal(size=(len(contexts), size)), full_matrices=False
    )
    vectors = vectors @ (left @ right)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors * met[:, None] / np.maximum(lengths, 1e-9)).astype(np.float32)


def _count(rows, tokens, size, special_ids):
    """Returns weighted counts `(V, C)` of tokens and frequent context tokens."""
    frequency = np.bincount(rows.ravel(), minlength=tokens)
    frequency[special_ids] = 0
    most = min(_CELLS, _CELLS_PER_TOKEN * rows.size) // tokens
    contexts = np.argsort(-frequency, kind="stable")[: max(most, size + _OVERSAMPLING)]
    # The last line and column count excluded tokens and are dropped.
    line, column = np.arange(tokens), np.full(tokens, len(contexts))
    column[contexts] = np.arange(len(contexts))
    line[special_ids], column[special_ids] = tokens, len(contexts)
    shape = tokens + 1, len(contexts) + 1
    lines, columns = (line * shape[1])[rows], column[rows]
    parts = np.isin(rows, special_ids).cumsum(axis=1, dtype=np.int32)
    counts = np.zeros(shape[0] * shape[1])
    for distance in range(1, _WINDOW + 1):
        left, right = np.s_[:, :-distance], np.s_[:, distance:]
        together = parts[left] == parts[right]
        for first, second in ((left, right), (right, left)):
            near = lines[first][together] + columns[second][together]
            np.add.at(counts, near, 1 / distance)
    return counts.reshape(shape)[:-1, :-1].astype(np.float32)


def _information(counts):
    """Replaces float32 counts by their positive pointwise mutual information, in place."""
    of_tokens = counts.sum(axis=1, keepdims=True, dtype=np.float64)
    of_contexts = counts.sum(axis=0, dtype=np.float64) ** _SMOOTHING
    expected = of_contexts / max(of_contexts.sum(), 1e-9)
    counts /= np.maximum(of_tokens, 1e-9).astype(np.float32)
    counts /= np.maximum(expected, 1e-30).astype(np.float32)
    return np.log(np.maximum(counts, 1.0, out=counts), out=counts)


def _decompose(matrix, size, rng):
    """Returns the largest left singular vectors times the roots of their values, and right ones."""
    columns = min(size + _OVERSAMPLING, *matrix.shape)
    basis = rng.normal(size=(matrix.shape[1], columns)).astype(np.float32)
    for _ in range(_ITERATIONS):
        basis = np.linalg.qr(matrix @ basis)[0]
        basis = np.linalg.qr(matrix.T @ basis)[0]
    left, values, right = np.linalg.svd(matrix @ basis, full_matrices=False)
    return left[:, :size] * np.sqrt(values[:size]), basis @ right[:size].T
