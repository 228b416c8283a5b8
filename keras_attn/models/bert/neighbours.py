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

import numpy as np
from keras import ops

# Where half of the variance of a normed input is the position's, the logit of the neighbour is
# STRENGTH * sqrt(key_dim) / 2: 6 at a depth of 64, against nearly 0 of all others.
STRENGTH = 1.5
RANDOM_SHARE = 0.3  # of the usual random kernel that stays


def neighbour_frequencies(depth):
    """Frequencies of the pairs of columns, `(D / 2,)`."""
    pairs = depth // 2
    return np.pi * (np.arange(pairs) + 0.5) / pairs


def neighbour_positions(length, depth, stddev):
    """Position table: sine and cosine in turn, float32 `(length, D)`.

    Args:
        length: Rows.
        depth: D.
        stddev: Root mean square of the entries.
    """
    angles = np.arange(length)[:, None] * neighbour_frequencies(depth)
    table = np.zeros((length, depth))
    table[:, 0 : 2 * angles.shape[1] : 2] = np.sin(angles)
    table[:, 1 : 2 * angles.shape[1] : 2] = np.cos(angles)
    return (table * np.sqrt(2) * stddev).astype("float32")


def neighbour_kernels(depth, key_dim, shift, random):
    """Query and key kernel of a head that looks `shift` positions ahead.

    Args:
        depth: D.
        key_dim: K.
        shift: Positions; negative ones lie before.
        random: NumPy generator that picks the frequencies.

    Returns:
        Two float32 arrays `(D, K)`.
    """
    frequencies = neighbour_frequencies(depth)
    number = min(key_dim // 2, len(frequencies))
    query, key = np.zeros((depth, key_dim)), np.zeros((depth, key_dim))
    for column, pair in enumerate(random.permutation(len(frequencies))[:number]):
        rows, columns = slice(2 * pair, 2 * pair + 2), slice(2 * column, 2 * column + 2)
        cosine, sine = np.cos(frequencies[pair] * shift), np.sin(frequencies[pair] * shift)
        query[rows, columns] = np.eye(2)
        key[rows, columns] = [[cosine, sine], [-sine, cosine]]
    return tuple((np.sqrt(STRENGTH) * x).astype("float32") for x in (query, key))


def look_at_neighbours(encoder):
    """Sets the first weights of a built `BertEncoder`."""
    depth, heads = encoder.hidden_dim, encoder.num_heads
    width = depth // heads
    random = np.random.default_rng(encoder.seed or 0)
    encoder.position_embedding.embeddings.assign(
        neighbour_positions(encoder.max_length, depth, encoder.initializer_range)
    )
    for layer in encoder.encoder_layers:
        (kernel,) = layer.attention.kernels
        value = np.array(ops.convert_to_numpy(kernel))
        value[:, : 2 * depth] *= RANDOM_SHARE
        for head in range(heads):
            shift = (head // 2 + 1) * (-1 if head % 2 == 0 else 1)
            query, key = neighbour_kernels(depth, width, shift, random)
            value[:, head * width : (head + 1) * width] += query
            value[:, depth + head * width : depth + (head + 1) * width] += key
        kernel.assign(value)
