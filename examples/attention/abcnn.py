"""Attention between two sentences in a convolutional network: do they have words in common?

    python examples/attention/abcnn.py [--seeds=2] [--steps=400]

The task is made up: two sentences of twelve of a thousand words, in half of the rows with three in
common, each anywhere; in 13 % of the others chance gives them one. Attention before the convolution
adds a second channel, what each word matches; the models without it have more filters, for as many
weights. In the pooling alone it only weighs what is there already.
"""

import numpy as np
from compare import compare

from keras_attn.models import ABCNN

LENGTH, VOCABULARY, COMMON = 12, 1000, 3


def pairs(count, seed):
    rng = np.random.default_rng(seed)
    first, second = rng.integers(1, VOCABULARY + 1, (2, count, LENGTH), "int32")
    label = rng.integers(0, 2, count, "int32")
    for row in np.flatnonzero(label):
        places, others = (rng.permutation(LENGTH)[:COMMON] for _ in range(2))
        second[row, others] = first[row, places]
    return {"token_ids": first, "second_token_ids": second, "label": label}


def main():
    names = "no attention", "ABCNN-1: before", "ABCNN-2: in pooling", "ABCNN-3: both"
    models = {name: lambda seed, variant=variant: ABCNN(
        VOCABULARY + 1, 2, LENGTH, variant, embedding_dim=48, filters=48 if variant % 2 else 98,
        width=3, seed=seed) for variant, name in enumerate(names)}
    compare(models, pairs(20_000, 0), pairs(2000, 1), steps=400, seeds=2)


if __name__ == "__main__":
    main()
