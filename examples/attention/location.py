"""Location score: read the word at the position that the query names.

    python examples/attention/location.py [--seeds=3] [--steps=1000]

The data is synthetic: twelve words from a vocabulary of 50, and a position; the answer is the word
at that position. A score of the content cannot distinguish positions. Hidden sizes differ so that
all models have about the same number of weights.
"""

import keras
import numpy as np
from compare import compare, split
from keras import layers, ops

from keras_attn.layers import Attention, LocationScore

LENGTH, WORDS = 12, 50


def rows(count=20_000):
    rng = np.random.default_rng(0)
    words = rng.integers(WORDS, size=(count, LENGTH))
    positions = rng.integers(LENGTH, size=(count, 1))
    return (words, positions), np.take_along_axis(words, positions, axis=1)[:, 0]


def model(hidden_dim, attention=None):
    words, position = keras.Input((LENGTH,), dtype="int32"), keras.Input((1,), dtype="int32")
    query = layers.Embedding(LENGTH, hidden_dim)(position)
    states = layers.Embedding(WORDS, hidden_dim)(words)
    read = (
        ops.mean(states, axis=1, keepdims=True) if attention is None else (attention(query, states))
    )
    features = layers.Flatten()(layers.Concatenate()([read, query]))
    logits = layers.Dense(WORDS)(layers.Dense(2 * hidden_dim, "relu")(features))
    return keras.Model((words, position), logits)


def main():
    compare(
        {
            "no attention": lambda seed: model(34),
            "bilinear": lambda seed: model(32, Attention("bilinear", seed=seed)),
            "location": lambda seed: model(
                33, Attention(LocationScore(LENGTH, seed=seed), seed=seed)
            ),
        },
        *split(rows()),
        steps=1000,
    )


if __name__ == "__main__":
    main()
