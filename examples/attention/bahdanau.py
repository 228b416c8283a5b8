"""Bahdanau's attention: spell names of functions in another way, see spelling.py.

    python examples/attention/bahdanau.py [--seeds=1] [--steps=300]

Without attention the same decoder reads the mean of the encoder's states in every step; it has
more units, for as many weights.
"""

from compare import compare, split
from keras import ops
from spelling import CHARACTERS, rows

from keras_attn.models import BahdanauSeq2Seq


class Mean(BahdanauSeq2Seq):
    """Has but one state of the encoder to attend to."""

    def build(self, input_shape=None):
        super().build(input_shape)
        self.decoder.cell.score.trainable = False  # there is nothing to choose from

    def read(self, inputs, training=None):
        encoded, state = super().read(inputs, training)
        real = ops.cast(inputs["padding_mask"], encoded.dtype)[..., None]
        mean = ops.sum(encoded * real, axis=1, keepdims=True) / ops.sum(real, 1, keepdims=True)
        return ops.broadcast_to(mean, ops.shape(encoded)), state


def main():
    compare({
        "no attention": lambda seed: Mean(CHARACTERS, 50, seed=seed),
        "attention": lambda seed: BahdanauSeq2Seq(CHARACTERS, 48, seed=seed),
    }, *split(rows(), 500), steps=300, score="token_accuracy", batch_size=32, seeds=1)


if __name__ == "__main__":
    main()
