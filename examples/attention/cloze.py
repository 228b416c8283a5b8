"""A task of text: name the characters that are hidden, out of what is around them.

The text is Python's help on the language, each line once, in rows of characters, of which one in
six is hidden; the last rows are to test. The encoder is one layer of a Transformer; what it sees
is up to each example.
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

WIDTH, CHARACTERS, HIDDEN = 64, 128, 0
SHORT, LONG, TEST = 16, 256, 32_768  # characters of a row, and to test


def rows(length):
    """Returns (train, test), each `(characters, right ones, weights)`, all `(N, length)`."""
    lines = dict.fromkeys("\n".join(topics.values()).splitlines(keepends=True))
    text = np.frombuffer("".join(lines).encode("ascii", "ignore"), "uint8")
    text = text[:len(text) // length * length].reshape(-1, length).astype("int32")
    hidden = np.random.default_rng(0).random(text.shape) < 1 / 6
    found = np.where(hidden, HIDDEN, text), text, hidden / hidden.mean(dtype="float32")
    return tuple(zip(*(np.split(x, [-TEST // length]) for x in found), strict=True))


def self_attention(num_heads, position=None):
    """A function that has tensors attend to themselves."""
    layer = MultiHeadAttention(num_heads, WIDTH // num_heads, position=position)
    return lambda x: layer(x, x)


def encoder(attention, positions=SinusoidalPositionEncoding, hidden=4 * WIDTH):
    """A model of characters `(B, T)` that returns logits of all of them.

    Args:
        attention: Function of tensors `(B, T, D)`; None: a two-layer network of as many weights
            stands in its place.
        positions: Function that makes the layer which adds positions, or None.
        hidden: Units after attention.
    """
    ids = keras.Input((None,), dtype="int32")
    x = layers.Embedding(CHARACTERS, WIDTH, keras.initializers.RandomNormal(stddev=1.0))(ids)
    x = x if positions is None else positions()(x)
    attention = attention or PositionwiseFeedForward(2 * WIDTH)
    x = x + attention(layers.LayerNormalization()(x))
    x = x + PositionwiseFeedForward(hidden)(layers.LayerNormalization()(x))
    return keras.Model(ids, layers.Dense(CHARACTERS)(layers.LayerNormalization()(x)))
