"""Attention between two sentences in a convolutional network: do they share words?

    python examples/attention/abcnn.py [--seeds=2] [--steps=400]

The data is synthetic: pairs of sentences of 12 words from a vocabulary of 1,000. The two sentences
of a positive pair share three words at random positions; 13 % of the negative pairs share one by
chance. Attention before the convolution adds a second channel, which holds what each word matches;
attention in the pooling only reweights the features. The models without the channel have more
filters, so that all have about the same number of weights.
"""

import numpy as np
from compare import compare

from keras_attn.models import ABCNN

LENGTH, VOCABULARY, SHARED = 12, 1000, 3


def pairs(count, seed):
    rng = np.random.default_rng(seed)
    first, second = rng.integers(1, VOCABULARY + 1, (2, count, LENGTH), "int32")
    label = rng.integers(0, 2, count, "int32")
    for row in np.flatnonzero(label):
        first_positions, second_positions = (rng.permutation(LENGTH)[:SHARED] for _ in range(2))
        second[row, second_positions] = first[row, first_positions]
    return {"token_ids": first, "second_token_ids": second, "label": label}


def main():
    names = "no attention", "ABCNN-1: before", "ABCNN-2: in pooling", "ABCNN-3: both"
    models = {
        name: lambda seed, variant=variant: ABCNN(
            VOCABULARY + 1,
            2,
            LENGTH,
            variant,
            embedding_dim=48,
            filters=48 if variant % 2 else 98,
            width=3,
            seed=seed,
        )
        for variant, name in enumerate(names)
    }
    compare(models, pairs(20_000, 0), pairs(2000, 1), steps=400, seeds=2)


if __name__ == "__main__":
    main()
