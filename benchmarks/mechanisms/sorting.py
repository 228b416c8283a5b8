"""Pointer networks trained to sort up to ten numbers, tested on longer sequences.

    python -m benchmarks.mechanisms.sorting --output=runs/sorting

Training examples have five to ten numbers between 0 and 1. At each step, the most likely position
is taken, given the predictions before it.
"""

from absl import flags

from benchmarks.mechanisms.runs import head, results
from keras_attn.cli.command_line import run_command

SHORTEST, LONGEST = 5, 10
LENGTHS = 5, 10, 15, 20, 30
TEST_ROWS = 1000

FLAGS = flags.FLAGS
flags.DEFINE_integer("steps", 4000, "Training steps, of 128 examples.")


def main():
    from keras_attn.models import PointerNetwork

    head(*(f"{unit} of {count}" for count in LENGTHS for unit in ("positions", "sequences")))
    for name, once in (("repeats allowed", False), ("repeats forbidden", True)):

        def make(seed, once=once):
            return PointerNetwork(1, 128, once, seed=seed)

        results(
            name,
            {},
            accuracies,
            make,
            {
                "rows": rows(SHORTEST, LONGEST, 128 * FLAGS.steps, 0),
                "steps": FLAGS.steps,
                "batch_size": 128,
                "rate": 1e-3,
            },
        )


def rows(shortest, longest, count, seed):
    """Returns elements `(N, longest, 1)`, padded at the end, and their order as `label`."""
    import numpy as np

    random = np.random.default_rng(seed)
    elements = random.random((count, longest))
    mask = np.arange(longest) < random.integers(shortest, longest + 1, (count, 1))
    return {
        "elements": np.where(mask, elements, 0.0)[..., None].astype("float32"),
        "padding_mask": mask.astype("int32"),
        "sample_weight": mask.astype("float32"),
        "label": np.where(mask, elements, 2.0).argsort(axis=1).astype("int32"),
    }


def accuracies(model):
    """Returns the accuracy of positions and of whole sequences by length, in percent."""
    import numpy as np
    import tensorflow as tf

    found = []
    for count in LENGTHS:
        test = rows(count, count, TEST_ROWS, 1000 + count)
        correct = tf.function(model.predict_indices)(test).numpy() == test["label"]
        found += [100 * float(np.mean(correct)), 100 * float(np.mean(correct.all(axis=1)))]
    return found


if __name__ == "__main__":
    run_command(main, __doc__)
