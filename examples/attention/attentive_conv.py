"""A convolution pooled by attention: which package does a docstring come from?

    python examples/attention/attentive_conv.py [--seeds=2] [--steps=400]

Docstrings of installed packages with the package names masked. The baselines pool the same
convolution by its mean or maximum and add an LSTM, whose units give them about as many weights.
"""

import keras
from compare import compare, labelled_words
from keras import layers, ops

from keras_attn.layers import AttentiveConvPooling

LENGTH, VOCABULARY, HIDDEN_DIM = 40, 4000, 48


def model(classes, pool):
    ids = keras.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(VOCABULARY + 2, HIDDEN_DIM, mask_zero=True)(ids)
    x = layers.Dropout(0.3)(x)
    if pool is None:
        x = AttentiveConvPooling(HIDDEN_DIM, 3, 24)(x)
    else:
        real = ops.cast(ids > 0, "float32")[..., None]
        features = layers.Conv1D(HIDDEN_DIM, 3, padding="same", activation="relu")(x * real)
        last = layers.Bidirectional(layers.LSTM(27))(x)
        x = layers.Concatenate()([pool(features, real), last])
    return keras.Model(ids, layers.Dense(classes)(layers.Dropout(0.3)(x)))


def mean(x, real):
    return ops.sum(x * real, axis=1) / ops.sum(real, axis=1)


def maximum(x, real):
    return ops.max(x * real, axis=1)


def main():
    train, test, classes = labelled_words(LENGTH, VOCABULARY)
    train, test = ((rows["token_ids"], rows["label"]) for rows in (train, test))
    compare(
        {
            "mean": lambda seed: model(classes, mean),
            "maximum": lambda seed: model(classes, maximum),
            "attention": lambda seed: model(classes, None),
        },
        train,
        test,
        steps=400,
        batch_size=32,
        seeds=2,
    )


if __name__ == "__main__":
    main()
