"""A task that requires attention: recall the value that was paired with a key.

A row has eight pairs of a key, from a set of 32, and a value, from a set of 16, and asks for the
value of one of the keys.
"""

import keras
import numpy as np
from keras import layers, ops

PAIRS, KEYS, VALUES = 8, 32, 16


def rows(count=20_000):
    """Returns `((pairs (N, 8, 2), question (N, 1)), answer (N,))`, integers."""
    rng = np.random.default_rng(0)
    keys = rng.permuted(np.tile(np.arange(KEYS), (count, 1)), axis=1)[:, :PAIRS]
    values = rng.integers(VALUES, size=(count, PAIRS))
    asked = rng.integers(PAIRS, size=(count, 1))
    question, answer = (np.take_along_axis(x, asked, axis=1) for x in (keys, values))
    return (np.stack([keys, values], axis=-1), question), answer[:, 0]


class Recall(keras.Model):
    """Reads the pairs with `attention(query, pairs)`, or their mean if `attention` is None."""

    def __init__(self, attention=None, hidden_dim=32):
        super().__init__()
        self.key_embedding, self.value_embedding = (
            layers.Embedding(size, hidden_dim) for size in (KEYS, VALUES)
        )
        self.join, self.hidden = layers.Dense(hidden_dim), layers.Dense(2 * hidden_dim, "relu")
        self.logits = layers.Dense(VALUES)
        self.attention = attention

    def call(self, inputs, training=None):  # Keras passes `training` on to the attention
        pairs, question = inputs
        states = self.join(
            ops.concatenate(
                [self.key_embedding(pairs[:, :, 0]), self.value_embedding(pairs[:, :, 1])], axis=-1
            )
        )
        query = self.key_embedding(question)
        features = ops.concatenate([self.read(query, states), query], axis=-1)
        return self.logits(self.hidden(features[:, 0]))

    def read(self, query, states):
        if self.attention is None:
            return ops.mean(states, axis=1, keepdims=True)
        return self.attention(query, states)
