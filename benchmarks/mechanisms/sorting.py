"""Pointer networks that learned to sort up to ten numbers, on more of them.

    python -m benchmarks.mechanisms.sorting --output=runs/sorting

A row has five to ten numbers between 0 and 1; tests have as many as told. Each place is the
likeliest, given those that the network named before.
"""

from absl import flags

from benchmarks.mechanisms.runs import fit, results, told
from keras_attn.jobs.command_line import run_command

SHORTEST, LONGEST = 5, 10
TESTED = 5, 10, 15, 20, 30
TEST_ROWS = 1000

FLAGS = flags.FLAGS
flags.DEFINE_integer("steps", 4000, "Batches of 128.")


def main():
    heads = " | ".join(f"{count} numbers" for count in TESTED)
    print(f"| | share of | {heads} |\n|---|---|{'---|' * len(TESTED)}")
    for name, repeats in (("each may be named again", False), ("each is named once", True)):
        found = results(f"forbid-repeats-{repeats}", {"steps": FLAGS.steps},
                        lambda seed: run(seed, repeats))  # noqa: B023
        for part, share in enumerate(("places", "rows")):
            cells = [told([run[i][part] for run in found]) for i in range(len(TESTED))]
            print(f"| {name} | {share} | {' | '.join(cells)} |", flush=True)


def rows(shortest, longest, count, seed):
    """Elements `(N, longest, 1)`, of which some at the end may be none, and their order."""
    import numpy as np

    random = np.random.default_rng(seed)
    elements = random.random((count, longest))
    mask = np.arange(longest) < random.integers(shortest, longest + 1, (count, 1))
    return {"elements": np.where(mask, elements, 0.0)[..., None].astype("float32"),
            "padding_mask": mask.astype("int32"), "sample_weight": mask.astype("float32"),
            "label": np.where(mask, elements, 2.0).argsort(axis=1).astype("int32")}


def run(seed, forbid_repeats):
    """Shares of places and of whole rows that are right, by numbers."""
    from keras_attn.models import PointerNetwork

    model = PointerNetwork(1, 128, forbid_repeats, seed=seed)
    fit(model, rows(SHORTEST, LONGEST, 128 * FLAGS.steps, seed), steps=FLAGS.steps,
        batch_size=128, rate=1e-3, seed=seed)
    return [right(model, rows(count, count, TEST_ROWS, 1000 + count)) for count in TESTED]


def right(model, test):
    import numpy as np
    import tensorflow as tf

    same = tf.function(model.predict_indices)(test).numpy() == test["label"]
    return [float(np.mean(same)), float(np.mean(same.all(axis=1)))]


if __name__ == "__main__":
    run_command(main, __doc__)
