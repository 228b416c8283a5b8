"""Bahdanau's attention: convert names from camel case to snake case, see spelling.py.

    python examples/attention/bahdanau.py [--seeds=1] [--steps=300]

Without attention, the same decoder reads the mean of the encoder states at every step; it has more
units, so that both models have about the same number of weights.
"""

from compare import compare, split
from keras import ops
from spelling import CHARACTERS, rows

from keras_attn.models import BahdanauSeq2Seq


class Mean(BahdanauSeq2Seq):
    """Attends to the mean of the encoder states."""

    def build(self, input_shape=None):
        super().build(input_shape)
        self.decoder.cell.score.trainable = False  # all states are equal

    def read(self, inputs, training=None):
        encoded, state = super().read(inputs, training)
        real = ops.cast(inputs["padding_mask"], encoded.dtype)[..., None]
        mean = ops.sum(encoded * real, axis=1, keepdims=True) / ops.sum(real, 1, keepdims=True)
        return ops.broadcast_to(mean, ops.shape(encoded)), state


def main():
    compare(
        {
            "no attention": lambda seed: Mean(CHARACTERS, 50, seed=seed),
            "attention": lambda seed: BahdanauSeq2Seq(CHARACTERS, 48, seed=seed),
        },
        *split(rows(), 500),
        steps=300,
        score="token_accuracy",
        batch_size=32,
        seeds=1,
    )


if __name__ == "__main__":
    main()
