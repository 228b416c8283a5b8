"""Attention over pairs of features: a factorization machine that weights its pairs (AFM).

    python examples/attention/interaction.py [--seeds=3] [--steps=3000]

The data is synthetic: ten fields of 20 values each, with a hidden vector of size 4 for each value.
The target is the sum of three of the 45 dot products, with noise of 0.1; predicting the mean has an
error of 1. An unweighted sum of all pairs cannot fit it with embeddings of size 4, or of size 5,
which gives as many weights as attention; size 12 can, with four dimensions per relevant pair.
"""

from functools import partial

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


def model_of(depth, attention, seed):
    return AttentionalFactorizationMachine(FIELDS * VALUES, FIELDS, depth, 16, attention, seed=seed)


MODELS = {
    f"size {depth}{', attention' * attention}": partial(model_of, depth, attention)
    for depth, attention in ((4, False), (5, False), (12, False), (4, True))
}


def main():
    compare(MODELS, *split(rows(), 5000), steps=3000, score="label_loss", rate=1e-2)


if __name__ == "__main__":
    main()
