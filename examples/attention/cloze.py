"""A text task: predict masked characters from their context.

The text is Python's language reference with repeated lines removed, split into sequences of
characters, one sixth of which are masked; the last sequences are the test set. The encoder is one
Transformer layer whose attention each example chooses.
"""

from pydoc_data.topics import topics

import keras
import numpy as np
from keras import layers

from keras_attn.layers import (
    MultiHeadAttention,
    PositionwiseFeedForward,
    SinusoidalPositionEncoding,
)

HIDDEN_DIM, CHARACTERS, MASK = 64, 128, 0
SHORT, LONG, TEST = 16, 256, 32_768  # characters per sequence, and in the test set


def rows(length):
    """Returns (train, test), each `(inputs, targets, weights)`, all `(N, length)`."""
    lines = dict.fromkeys("\n".join(topics.values()).splitlines(keepends=True))
    text = np.frombuffer("".join(lines).encode("ascii", "ignore"), "uint8")
    text = text[: len(text) // length * length].reshape(-1, length).astype("int32")
    masked = np.random.default_rng(0).random(text.shape) < 1 / 6
    arrays = np.where(masked, MASK, text), text, masked / masked.mean(dtype="float32")
    return tuple(zip(*(np.split(x, [-TEST // length]) for x in arrays), strict=True))


def self_attention(num_heads, position=None):
    """Returns a function that applies multi-head self-attention to a tensor."""
    layer = MultiHeadAttention(num_heads, HIDDEN_DIM // num_heads, position=position)
    return lambda x: layer(x, x)


def encoder(attention, positions=SinusoidalPositionEncoding, intermediate_dim=4 * HIDDEN_DIM):
    """Returns a model that maps characters `(B, T)` to logits over all characters.

    Args:
        attention: Function of a tensor `(B, T, D)`. If None, a two-layer feed-forward network with
            as many weights takes its place.
        positions: Function that returns the layer that adds positions, or None.
        intermediate_dim: Size of the feed-forward layer after attention.
    """
    ids = keras.Input((None,), dtype="int32")
    x = layers.Embedding(CHARACTERS, HIDDEN_DIM, keras.initializers.RandomNormal(stddev=1.0))(ids)
    x = x if positions is None else positions()(x)
    attention = attention or PositionwiseFeedForward(2 * HIDDEN_DIM)
    x = x + attention(layers.LayerNormalization()(x))
    x = x + PositionwiseFeedForward(intermediate_dim)(layers.LayerNormalization()(x))
    return keras.Model(ids, layers.Dense(CHARACTERS)(layers.LayerNormalization()(x)))
