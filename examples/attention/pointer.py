"""Pointer network: sort eight numbers by predicting their positions.

    python examples/attention/pointer.py [--seeds=3] [--steps=1000]

The data is synthetic: numbers between 0 and 1. Each position is predicted given the correct ones
before it. The baseline without pointers has the same LSTMs, with more units for as many weights,
and treats positions as classes.
"""

import numpy as np
from compare import compare, split
from keras import layers, ops

from keras_attn.models import PointerNetwork

COUNT = 8


class Classes(PointerNetwork):
    """Predicts positions as classes, without attention to the elements."""

    def build(self, input_shape=None):
        self.encoder = layers.LSTM(self.units, return_state=True)
        self.decoder = layers.LSTM(self.units, return_sequences=True)
        self.hidden = layers.Dense(self.units, "tanh")
        self.logits = layers.Dense(COUNT)
        self.start = self.add_weight(name="start", shape=(1, self.element_dim))
        self.built = True

    def call(self, inputs):
        elements, label = inputs["elements"], inputs["label"]
        _, *state = self.encoder(elements)
        chosen = ops.take_along_axis(elements, label[..., None], axis=1)
        read = ops.concatenate([self._first(elements)[:, None], chosen[:, :-1]], axis=1)
        return {"logits": self.logits(self.hidden(self.decoder(read, initial_state=state)))}


def rows(count=20_000):
    elements = np.random.default_rng(0).random((count, COUNT, 1), dtype="float32")
    return {"elements": elements, "label": elements[..., 0].argsort(axis=1).astype("int32")}


def main():
    compare(
        {
            "no pointers": lambda seed: Classes(1, 50, seed=seed),
            "pointers": lambda seed: PointerNetwork(1, 48, seed=seed),
        },
        *split(rows()),
        steps=1000,
    )


if __name__ == "__main__":
    main()
