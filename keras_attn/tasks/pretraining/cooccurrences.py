"""First vectors of tokens, from how often each occurs near which others.

A masked-LM needs most of its first steps to learn which tokens are alike, one masked place at a
time. Counts over millions of tokens tell that in seconds.
"""

import numpy as np

_WINDOW = 5  # tokens on either side; one at distance d counts 1 / d
_CELLS = 2**26  # of the table of counts, half a gigabyte; less for short texts
_CELLS_OF_A_TOKEN = 32
_SMOOTHING = 0.75  # power of the contexts' counts: rare ones are not held too telling
_SPARE = 64  # columns beyond those sought, and rounds, of the randomised decomposition
_ROUNDS = 3


def cooccurrence_vectors(rows, vocabulary_size, width, special_ids, seed=0):
    """Vectors whose products tell how much more often two tokens meet than by chance.

    Positive pointwise mutual information of tokens and the most frequent ones around them, its
    `width` largest left singular vectors times the roots of their values, less the mean vector,
    turned at random, each of length 1.

    Args:
        rows: int `(B, T)`, token ids.
        vocabulary_size: Number of tokens V.
        width: Length D of a vector.
        special_ids: Ids that get no vector; what they stand between does not meet.
        seed: Integer for the random turn and the decomposition.

    Returns:
        float32 `(V, D)`; zeros for tokens that were not met.

    References:
        Levy, Goldberg & Dagan, Improving Distributional Similarity with Lessons Learned from Word
        Embeddings, 2015, sections 2 and 3.
        Halko, Martinsson & Tropp, Finding Structure with Randomness, 2011, algorithms 4.4, 5.1.
    """
    rng = np.random.default_rng(seed)
    information = _information(_count(rows, vocabulary_size, width, special_ids))
    met = information.any(axis=1)
    vectors, contexts = _decompose(information, min(width, *information.shape), rng)
    vectors -= met @ vectors / max(met.sum(), 1)
    # A turn that follows the signs and axes of the decomposition, which differ by machine.
    left, _, right = np.linalg.svd(
        contexts.T @ rng.normal(size=(len(contexts), width)), full_matrices=False
    )
    vectors = vectors @ (left @ right)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors * met[:, None] / np.maximum(lengths, 1e-9)).astype(np.float32)


def _count(rows, size, width, special_ids):
    """Weighted counts `(V, C)` of tokens and the most frequent ones around them."""
    frequency = np.bincount(rows.ravel(), minlength=size)
    frequency[special_ids] = 0
    most = min(_CELLS, _CELLS_OF_A_TOKEN * rows.size) // size
    contexts = np.argsort(-frequency, kind="stable")[: max(most, width + _SPARE)]
    # What is left out has a line, or a column, of its own, which is dropped.
    line, column = np.arange(size), np.full(size, len(contexts))
    column[contexts] = np.arange(len(contexts))
    line[special_ids], column[special_ids] = size, len(contexts)
    shape = size + 1, len(contexts) + 1
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
    """Positive pointwise mutual information; takes the place of `counts`, float32."""
    of_tokens = counts.sum(axis=1, keepdims=True, dtype=np.float64)
    of_contexts = counts.sum(axis=0, dtype=np.float64) ** _SMOOTHING
    expected = of_contexts / max(of_contexts.sum(), 1e-9)
    counts /= np.maximum(of_tokens, 1e-9).astype(np.float32)
    counts /= np.maximum(expected, 1e-30).astype(np.float32)
    return np.log(np.maximum(counts, 1.0, out=counts), out=counts)


def _decompose(matrix, width, rng):
    """Left singular vectors of the largest values times the roots of these, and right ones."""
    columns = min(width + _SPARE, *matrix.shape)
    basis = rng.normal(size=(matrix.shape[1], columns)).astype(np.float32)
    for _ in range(_ROUNDS):
        basis = np.linalg.qr(matrix @ basis)[0]
        basis = np.linalg.qr(matrix.T @ basis)[0]
    left, values, right = np.linalg.svd(matrix @ basis, full_matrices=False)
    return left[:, :width] * np.sqrt(values[:width]), basis @ right[:width].T
