"""A convolution pooled by attention: which package is a docstring from?

    python examples/attention/attentive_conv.py [--seeds=2] [--steps=400]

Docstrings of installed packages, their names masked. The other models have the same convolution
and an LSTM, with more units for as many weights, and pool the convolution by its mean or maximum.
"""

import keras
from compare import compare, labelled_words
from keras import layers, ops

from keras_attn.layers import AttentiveConvPooling

LENGTH, VOCABULARY, WIDTH = 40, 4000, 48


def model(classes, pool):
    ids = keras.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(VOCABULARY + 2, WIDTH, mask_zero=True)(ids)
    x = layers.Dropout(0.3)(x)
    if pool is None:
        x = AttentiveConvPooling(WIDTH, 3, 24)(x)
    else:
        real = ops.cast(ids > 0, "float32")[..., None]
        found = layers.Conv1D(WIDTH, 3, padding="same", activation="relu")(x * real)
        last = layers.Bidirectional(layers.LSTM(27))(x)
        x = layers.Concatenate()([pool(found, real), last])
    return keras.Model(ids, layers.Dense(classes)(layers.Dropout(0.3)(x)))


def mean(x, real):
    return ops.sum(x * real, axis=1) / ops.sum(real, axis=1)


def maximum(x, real):
    return ops.max(x * real, axis=1)


def main():
    train, test, classes = labelled_words(LENGTH, VOCABULARY)
    train, test = ((rows["token_ids"], rows["label"]) for rows in (train, test))
    compare({
        "mean": lambda seed: model(classes, mean),
        "maximum": lambda seed: model(classes, maximum),
        "attention": lambda seed: model(classes, None),
    }, train, test, steps=400, batch_size=32, seeds=2)


if __name__ == "__main__":
    main()
