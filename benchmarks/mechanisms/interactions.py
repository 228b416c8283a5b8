"""Error of factorization machines, with and without attention, on a set that is made up.

    python -m benchmarks.mechanisms.interactions --output=runs/interactions

The set and the models are those of examples/attention/interaction.py. The error is the mean square
times 100: guessing the mean has 101, the noise alone 1. Rate and batches are the same for all, and
were not tuned.
"""

import sys
from pathlib import Path

from absl import flags

from benchmarks.mechanisms.runs import accuracy, head, results
from keras_attn.cli.command_line import run_command

FLAGS = flags.FLAGS
flags.DEFINE_integer("steps", 3000, "Batches of 64.")


def main():
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples/attention"))
    from compare import split
    from interaction import MODELS, rows

    train, test = split(rows(), 5000)
    head("error")
    for name, make in MODELS.items():
        results(name, {}, accuracy, make, {
            "rows": train, "steps": FLAGS.steps, "batch_size": 64, "rate": 1e-2}, test,
            "label_loss")


if __name__ == "__main__":
    run_command(main, __doc__)
