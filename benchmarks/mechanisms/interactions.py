"""Error of factorization machines with and without attention, on synthetic data.

    python -m benchmarks.mechanisms.interactions --output=runs/interactions

The data and the models are those of examples/attention/interaction.py. The error is the mean
squared error times 100: predicting the mean has 101, the noise alone 1. The learning rate and batch
size are the same for all models and not tuned.
"""

import sys
from pathlib import Path

from absl import flags

from benchmarks.mechanisms.runs import accuracy, head, results
from keras_attn.cli.command_line import run_command

FLAGS = flags.FLAGS
flags.DEFINE_integer("steps", 3000, "Training steps, of 64 examples.")


def main():
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples/attention"))
    from compare import split
    from interaction import MODELS, rows

    train, test = split(rows(), 5000)
    head("error")
    for name, make in MODELS.items():
        results(
            name,
            {},
            accuracy,
            make,
            {"rows": train, "steps": FLAGS.steps, "batch_size": 64, "rate": 1e-2},
            test,
            "label_loss",
        )


if __name__ == "__main__":
    run_command(main, __doc__)
