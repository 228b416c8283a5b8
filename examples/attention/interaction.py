"""Attention to pairs of features: a factorization machine that tells which pairs count (AFM).

    python examples/attention/interaction.py [--seeds=3] [--steps=1500]

Made up: ten fields of twenty values each, with a hidden vector for each value; what is to be told
is the sum of three of the 45 dot products, with noise of 0.1. Guessing the mean has the error 1.
With vectors of four numbers, as the hidden ones, a sum of all pairs cannot tell.
"""

import numpy as np
from compare import compare, split

from keras_attn.models import AttentionalFactorizationMachine

FIELDS, VALUES, PAIRS = 10, 20, ((0, 1), (2, 5), (7, 8))


def rows(count=50_000):
    rng = np.random.default_rng(0)
    ids = rng.integers(VALUES, size=(count, FIELDS)) + VALUES * np.arange(FIELDS)
    hidden = rng.normal(size=(FIELDS * VALUES, 4))
    label = sum((hidden[ids[:, i]] * hidden[ids[:, j]]).sum(axis=1) for i, j in PAIRS)
    label = label / label.std() + 0.1 * rng.normal(size=count)
    return {"feature_ids": ids.astype("int32"), "label": label.astype("float32")}


def main():
    models = {name: lambda seed, attention=attention: AttentionalFactorizationMachine(
        FIELDS * VALUES, FIELDS, 4, 16, attention, seed=seed)
        for name, attention in (("no attention", False), ("attention", True))}
    compare(models, *split(rows(), 5000), steps=1500, score="label_loss")


if __name__ == "__main__":
    main()
