"""Intra-attention: an LSTM that attends to its own previous states (LSTMN).

    python examples/attention/intra_attention.py [--seeds=2] [--steps=600]

The task is that of recall.py, but the keys and values are read one at a time, then the question;
the last state gives the answer. The LSTM has more units, for about as many weights.
"""

import keras
import numpy as np
import recall
from compare import compare, split
from keras import layers

from keras_attn.layers import IntraAttentionLSTMCell

LENGTH, UNITS = 2 * recall.PAIRS + 1, 48


def rows():
    (pairs, question), answer = recall.rows()
    pairs = pairs + np.array([0, recall.KEYS])  # values have ids of their own
    return np.concatenate([pairs.reshape(-1, LENGTH - 1), question], axis=1), answer


def model(cell):
    ids = keras.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(recall.KEYS + recall.VALUES, UNITS)(ids)
    return keras.Model(ids, layers.Dense(recall.VALUES)(layers.RNN(cell)(x)))


def main():
    compare(
        {
            "LSTM": lambda seed: model(layers.LSTMCell(59)),
            "LSTMN": lambda seed: model(IntraAttentionLSTMCell(UNITS, LENGTH, seed=seed)),
        },
        *split(rows(), 1024),
        steps=600,
        seeds=2,
        xla=True,
    )


if __name__ == "__main__":
    main()
