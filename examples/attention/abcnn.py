"""Attention between two sentences in a convolutional network: do these belong together?

    python examples/attention/abcnn.py [--seeds=3] [--steps=400]

Halves of docstrings of installed packages: in half of the rows the second is that of another
docstring of the same package. Attention before the convolution gives it a second channel; the
models without have more filters, for as many weights.
"""

import numpy as np
from compare import compare, labelled_words

from keras_attn.models import ABCNN

HALF, VOCABULARY = 12, 4000


def pairs(rows):
    rows = {name: values[rows["token_ids"][:, -1] > 0] for name, values in rows.items()}
    first, second = np.split(rows["token_ids"], 2, axis=1)
    other = np.empty_like(second)
    for label in set(rows["label"]):  # the one before of the same package
        own = np.flatnonzero(rows["label"] == label)
        other[own] = second[np.roll(own, 1)]
    same = np.random.default_rng(0).random(len(first)) < 0.5
    return {"token_ids": first, "second_token_ids": np.where(same[:, None], second, other),
            "label": same.astype("int32")}


def main():
    train, test, _ = labelled_words(2 * HALF, VOCABULARY)
    names = "no attention", "ABCNN-1: before", "ABCNN-2: in pooling", "ABCNN-3: both"
    compare({name: lambda seed, variant=variant: ABCNN(
        VOCABULARY + 2, 2, HALF, variant, embedding_dim=48, filters=48 if variant % 2 else 98,
        width=3, seed=seed)
        for variant, name in enumerate(names)}, pairs(train), pairs(test), steps=400)


if __name__ == "__main__":
    main()
