"""First weights with which every head looks at one neighbour.

With BERT's own first weights attention is uniform over the row, so the signal
that one neighbour matters drowns in the others, and a model sees a long
plateau at the accuracy of single-token frequencies. Here position p starts as
sines and cosines of p w for frequencies w spread evenly over 0 to pi, which
makes different positions nearly orthogonal, and head h's query and key kernels
pick some of these frequencies, the key's turned by w s: the logit of the pair
(i, j) is then largest where j = i + s, for shifts s = -1, 1, -2, 2, … by head.
Nothing is fixed: all of it is learned from there on.

The idea to begin with structured query-key products is that of Trockman and
Kolter, Mimetic Initialization of Self-Attention Layers, 2023; the shifts are ours.
"""

import keras
import numpy as np
from keras import ops

from keras_attn.ops.arguments import require_not_negative

# Where half of the variance of a normed input is the position's, the logit of the neighbour is
# STRENGTH * sqrt(key_dim) / 2: 6 at a depth of 64, against nearly 0 of all others.
STRENGTH = 1.5
RANDOM_SCALE = 0.3  # of the usual random kernel that stays


def neighbour_frequencies(depth):
    """Frequencies of the pairs of columns, `(D / 2,)`."""
    pairs = depth // 2
    return np.pi * (np.arange(pairs) + 0.5) / pairs


@keras.saving.register_keras_serializable(package="keras_attn")
class NeighbourPositions(keras.initializers.Initializer):
    """First position table: sine and cosine in turn.

    Args:
        stddev: Root mean square of the entries.
    """

    def __init__(self, stddev=0.02):
        require_not_negative(stddev=stddev)
        self.stddev = stddev

    def __call__(self, shape, dtype=None):
        length, depth = shape
        angles = np.arange(length)[:, None] * neighbour_frequencies(depth)
        table = np.zeros((length, depth))
        table[:, 0 : 2 * angles.shape[1] : 2] = np.sin(angles)
        table[:, 1 : 2 * angles.shape[1] : 2] = np.cos(angles)
        return ops.convert_to_tensor(np.sqrt(2) * self.stddev * table, dtype=dtype or "float32")

    def get_config(self):
        return {"stddev": self.stddev}


def neighbour_kernels(depth, key_dim, shifts, seed=None):
    """First query and key kernels of heads that look `shifts` positions ahead.

    Args:
        depth: D.
        key_dim: K.
        shifts: H integers; negative ones lie before.
        seed: Integer that picks the frequencies; None for 0.

    Returns:
        Two float32 arrays `(D, H K)`.
    """
    random = np.random.default_rng(seed or 0)
    frequencies = neighbour_frequencies(depth)
    number = min(key_dim // 2, len(frequencies))
    query = np.zeros((depth, len(shifts), key_dim), "float32")
    key = np.zeros_like(query)
    for head, shift in enumerate(shifts):
        for column, pair in enumerate(random.permutation(len(frequencies))[:number]):
            rows, columns = slice(2 * pair, 2 * pair + 2), slice(2 * column, 2 * column + 2)
            angle = frequencies[pair] * shift
            query[rows, head, columns] = np.eye(2)
            key[rows, head, columns] = [
                [np.cos(angle), np.sin(angle)],
                [-np.sin(angle), np.cos(angle)],
            ]
    return tuple(np.sqrt(STRENGTH) * x.reshape(depth, -1) for x in (query, key))


def neighbour_shifts(num_heads):
    """-1, 1, -2, 2, … by head."""
    return [(head // 2 + 1) * (-1 if head % 2 == 0 else 1) for head in range(num_heads)]
