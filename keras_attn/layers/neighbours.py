"""Initialization in which each head attends to one neighbouring position.

With BERT's initialization attention is uniform over the sequence, so the signal that one neighbour
matters is drowned out by the others, and training goes through a long plateau at the accuracy of
single-token frequencies. Here the embedding of position p is initialized with sines and cosines of
p w, for frequencies w evenly spaced over 0 to pi, which makes different positions nearly
orthogonal. The query and key kernels of head h select some of these frequencies, and the key kernel
rotates them by w s, so the logit of the pair (i, j) is largest at j = i + s, with shifts s = -1, 1,
-2, 2, … by head. Nothing is fixed: all weights are trained from there.

The idea of initializing structured query-key products is from Trockman and Kolter, Mimetic
Initialization of Self-Attention Layers, 2023; the shifts are ours.
"""

import keras
import numpy as np
from keras import ops

from keras_attn.ops.arguments import require_not_negative

# If the position contributes half of the variance of a normalized input, the logit of the neighbour
# is STRENGTH * sqrt(key_dim) / 2: 6 at a depth of 64, where all others are nearly 0.
STRENGTH = 1.5
RANDOM_SCALE = 0.3  # scale of the randomly initialized kernel that is added


def neighbour_frequencies(depth):
    """Frequencies of the pairs of columns, `(D / 2,)`."""
    pairs = depth // 2
    return np.pi * (np.arange(pairs) + 0.5) / pairs


@keras.saving.register_keras_serializable(package="keras_attn")
class NeighbourPositions(keras.initializers.Initializer):
    """Initializer of a position embedding matrix with interleaved sines and cosines.

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


@keras.saving.register_keras_serializable(package="keras_attn")
class NeighbourProjection(keras.initializers.Initializer):
    """Initializer of a kernel that projects embeddings with `NeighbourPositions`.

    Each pair of columns of the result copies the pair of the embeddings with the closest frequency,
    to which a small randomly initialized kernel is added.

    Args:
        stddev: Standard deviation of the random kernel before it is scaled down.
        seed: Integer seed of the random kernel; None means 0.
    """

    def __init__(self, stddev=0.02, seed=None):
        require_not_negative(stddev=stddev)
        self.stddev, self.seed = stddev, seed

    def __call__(self, shape, dtype=None):
        embedded, depth = shape
        random = np.random.default_rng(self.seed or 0)
        kernel = RANDOM_SCALE * random.normal(scale=self.stddev, size=shape)
        for pair in range(depth // 2):
            copied = min((2 * pair + 1) * embedded // (2 * depth), embedded // 2 - 1)
            kernel[2 * copied : 2 * copied + 2, 2 * pair : 2 * pair + 2] += np.eye(2)
        return ops.convert_to_tensor(kernel, dtype=dtype or "float32")

    def get_config(self):
        return {"stddev": self.stddev, "seed": self.seed}


def neighbour_kernels(depth, key_dim, shifts, seed=None):
    """Initial query and key kernels of heads that attend `shifts` positions ahead.

    Args:
        depth: D.
        key_dim: K.
        shifts: H integers; negative shifts look back.
        seed: Integer seed of the choice of frequencies; None means 0.

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
    """The shifts -1, 1, -2, 2, … of the heads."""
    return [(head // 2 + 1) * (-1 if head % 2 == 0 else 1) for head in range(num_heads)]
