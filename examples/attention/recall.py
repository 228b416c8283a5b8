"""A task of which attention is the whole: recall the value that stood beside a key.

A row shows eight pairs of a key, out of 32, and a value, out of 16, then asks for one of the keys.
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
    """Reads the pairs by `attention(query, pairs)`; without it their mean."""

    def __init__(self, attention=None, width=32):
        super().__init__()
        self.of_key, self.of_value = (layers.Embedding(size, width) for size in (KEYS, VALUES))
        self.join, self.hidden = layers.Dense(width), layers.Dense(2 * width, "relu")
        self.logits = layers.Dense(VALUES)
        self.attention = attention

    def call(self, inputs, training=None):  # which Keras hands on to the attention
        pairs, question = inputs
        states = self.join(ops.concatenate(
            [self.of_key(pairs[:, :, 0]), self.of_value(pairs[:, :, 1])], axis=-1))
        query = self.of_key(question)
        found = ops.concatenate([self.read(query, states), query], axis=-1)
        return self.logits(self.hidden(found[:, 0]))

    def read(self, query, states):
        if self.attention is None:
            return ops.mean(states, axis=1, keepdims=True)
        return self.attention(query, states)
