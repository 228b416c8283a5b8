"""Pointer networks that learned to sort up to ten numbers, on more of them.

    python -m benchmarks.mechanisms.sorting --output=runs/sorting

A row has five to ten numbers between 0 and 1; tests have as many as told. Each place is the
likeliest, given those that the network named before.
"""

from absl import flags

from benchmarks.mechanisms.runs import head, results
from keras_attn.cli.command_line import run_command

SHORTEST, LONGEST = 5, 10
TESTED = 5, 10, 15, 20, 30
TEST_ROWS = 1000

FLAGS = flags.FLAGS
flags.DEFINE_integer("steps", 4000, "Batches of 128.")


def main():
    from keras_attn.models import PointerNetwork

    head(*(f"{share} of {count}" for count in TESTED for share in ("places", "rows")))
    for name, once in (("a number may be named again", False), ("each is named once", True)):
        results(name, {}, right, lambda seed, once=once: PointerNetwork(1, 128, once, seed=seed), {
            "rows": rows(SHORTEST, LONGEST, 128 * FLAGS.steps, 0), "steps": FLAGS.steps,
            "batch_size": 128, "rate": 1e-3})


def rows(shortest, longest, count, seed):
    """Elements `(N, longest, 1)`, of which some at the end may be none, and their order."""
    import numpy as np

    random = np.random.default_rng(seed)
    elements = random.random((count, longest))
    mask = np.arange(longest) < random.integers(shortest, longest + 1, (count, 1))
    return {"elements": np.where(mask, elements, 0.0)[..., None].astype("float32"),
            "padding_mask": mask.astype("int32"), "sample_weight": mask.astype("float32"),
            "label": np.where(mask, elements, 2.0).argsort(axis=1).astype("int32")}


def right(model):
    """Shares of places and of whole rows that are right, by numbers, in percent."""
    import numpy as np
    import tensorflow as tf

    found = []
    for count in TESTED:
        test = rows(count, count, TEST_ROWS, 1000 + count)
        same = tf.function(model.predict_indices)(test).numpy() == test["label"]
        found += [100 * float(np.mean(same)), 100 * float(np.mean(same.all(axis=1)))]
    return found


if __name__ == "__main__":
    run_command(main, __doc__)
