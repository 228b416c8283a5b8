"""Teacher forcing: convert names from camel case to snake case, see spelling.py.

    python examples/attention/teacher_forcing.py [--seeds=1] [--steps=400]

A decoder that always reads the correct previous character never learns to recover from its own
errors. With scheduled sampling it reads its own prediction with a probability that grows from 0 to
0.5 over 400 steps, drawn per name or per character. At test time, all read their own predictions.
"""

from compare import compare, split
from keras.optimizers.schedules import PolynomialDecay
from spelling import CHARACTERS, rows

from keras_attn.models import BahdanauSeq2Seq

STEPS = 400


class FreeRunning(BahdanauSeq2Seq):
    """Reads its own predictions at test time."""

    def call(self, inputs, training=None):
        return super().call(inputs, training, None if training else 0.0)


def main():
    decay = PolynomialDecay(1.0, STEPS, 0.5)
    compare(
        {
            "always forced": lambda seed: FreeRunning(CHARACTERS, 48, seed=seed),
            "by name": lambda seed: FreeRunning(
                CHARACTERS, 48, seed=seed, teacher_forcing_ratio=decay, level="sequence"
            ),
            "by character": lambda seed: FreeRunning(
                CHARACTERS, 48, seed=seed, teacher_forcing_ratio=decay, level="token"
            ),
        },
        *split(rows(), 500),
        steps=STEPS,
        score="token_accuracy",
        batch_size=32,
        seeds=1,
    )


if __name__ == "__main__":
    main()
