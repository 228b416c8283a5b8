"""Teacher forcing: spell names of functions in another way, see spelling.py.

    python examples/attention/teacher_forcing.py [--seeds=1] [--steps=400]

A decoder that is always told the right character before never learns to go on after one of its
own. Here it is told its own with a share that grows from 0 to a half in 400 steps, drawn for whole
names or for each character. All are tested on their own characters.
"""

from compare import compare, split
from keras.optimizers.schedules import PolynomialDecay
from spelling import CHARACTERS, rows

from keras_attn.models import BahdanauSeq2Seq

STEPS = 400


class OnItsOwn(BahdanauSeq2Seq):
    """Is tested on its own characters."""

    def call(self, inputs, training=None):
        return super().call(inputs, training, None if training else 0.0)


def main():
    falling = PolynomialDecay(1.0, STEPS, 0.5)
    compare({
        "always forced": lambda seed: OnItsOwn(CHARACTERS, 48, seed=seed),
        "by name": lambda seed: OnItsOwn(
            CHARACTERS, 48, seed=seed, teacher_forcing_ratio=falling, level="sequence"),
        "by character": lambda seed: OnItsOwn(
            CHARACTERS, 48, seed=seed, teacher_forcing_ratio=falling, level="token"),
    }, *split(rows(), 500), steps=STEPS, score="token_accuracy", batch_size=32, seeds=1)


if __name__ == "__main__":
    main()
