"""Normalization in an encoder layer: predict masked characters from all others.

    python examples/attention/norms.py [--seeds=1] [--steps=200]

See cloze.py for the task; sequences have 16 characters. Layer norm and RMSNorm use one character,
instance norm one channel of all characters of a sequence, group norm a part of its channels, and
batch norm one channel of all sequences of a batch.
"""

import keras
from cloze import CHARACTERS, HIDDEN_DIM, SHORT, rows
from compare import compare
from keras import layers

from keras_attn.layers import SinusoidalPositionEncoding, TransformerEncoderLayer

NORMS = {
    "layer": lambda: "layer",
    "RMS": lambda: "rms",
    "instance": lambda: layers.GroupNormalization(-1),
    "group (4 groups)": lambda: layers.GroupNormalization(4),
    "batch": layers.BatchNormalization,
}


def model(norm):
    ids = keras.Input((None,), dtype="int32")
    x = SinusoidalPositionEncoding()(layers.Embedding(CHARACTERS, HIDDEN_DIM)(ids))
    x = TransformerEncoderLayer(4, 4 * HIDDEN_DIM, norm=norm)(x)
    return keras.Model(ids, layers.Dense(CHARACTERS)(x))


def main():
    models = {name: lambda seed, make=make: model(make()) for name, make in NORMS.items()}
    compare(models, *rows(SHORT), steps=200, batch_size=256, seeds=1, rate=5e-3, xla=True)


if __name__ == "__main__":
    main()
