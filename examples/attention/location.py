"""Location score: read the word at the place that the query names.

    python examples/attention/location.py [--seeds=3] [--steps=1000]

Made up: a row has twelve words, out of 50, and the number of a place; the answer is the word
there. A score of what is there cannot tell places apart. Models with fewer weights in attention
are wider, for about as many in all.
"""

import keras
import numpy as np
from compare import compare, split
from keras import layers, ops

from keras_attn.layers import Attention, LocationScore

LENGTH, WORDS = 12, 50


def rows(count=20_000):
    rng = np.random.default_rng(0)
    words, place = rng.integers(WORDS, size=(count, LENGTH)), rng.integers(LENGTH, size=(count, 1))
    return (words, place), np.take_along_axis(words, place, axis=1)[:, 0]


def model(width, attention=None):
    words, place = keras.Input((LENGTH,), dtype="int32"), keras.Input((1,), dtype="int32")
    query, states = layers.Embedding(LENGTH, width)(place), layers.Embedding(WORDS, width)(words)
    read = ops.mean(states, axis=1, keepdims=True) if attention is None else (
        attention(query, states))
    found = layers.Flatten()(layers.Concatenate()([read, query]))
    logits = layers.Dense(WORDS)(layers.Dense(2 * width, "relu")(found))
    return keras.Model((words, place), logits)


def main():
    compare({
        "no attention": lambda seed: model(34),
        "bilinear": lambda seed: model(32, Attention("bilinear", seed=seed)),
        "location": lambda seed: model(33, Attention(LocationScore(LENGTH, seed=seed), seed=seed)),
    }, *split(rows()), steps=1000)


if __name__ == "__main__":
    main()
