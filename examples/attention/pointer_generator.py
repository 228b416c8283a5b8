"""Copying: summarize who gave what to whom, with names outside the vocabulary.

    python examples/attention/pointer_generator.py [--seeds=2] [--steps=300]

The data is synthetic: sources "filler A gave filler B to filler C filler" with the summary "C has B
from A". Fillers come from a set of 20 words, half of the names from a set of 300; the other names
are words outside the vocabulary, a quarter of all target tokens. The model without copying is
otherwise the same.
"""

import numpy as np
from compare import BEGIN, END, compare, split

from keras_attn.models import PointerGenerator

NAMES, FILLERS = 300, 20
GAVE, TO, HAS, FROM, FILLER = range(4, 9)
NAME = FILLER + FILLERS
VOCABULARY = NAME + NAMES


def rows(count=10_000):
    rng = np.random.default_rng(0)
    new = rng.random((3, count)) < 0.5
    a, b, c = np.where(
        new, VOCABULARY + new.cumsum(axis=0) - 1, rng.integers(NAME, VOCABULARY, size=(3, count))
    )
    first, second, third, last = rng.integers(FILLER, NAME, size=(4, count))
    source = [first, a, GAVE, second, b, TO, third, c, last]
    target = [c, HAS, b, FROM, a]
    source, target_ids, label = (
        np.stack([np.broadcast_to(word, count) for word in words], axis=1).astype("int32")
        for words in (source, [BEGIN, *target], [*target, END])
    )
    return {"token_ids": source, "target_ids": target_ids, "label": label}


def model(first, copying, coverage, seed):
    made = PointerGenerator(VOCABULARY, 3, 32, 32, coverage=coverage, seed=seed)
    if not copying:
        made(first)
        made.generation.trainable = False
        kernel, bias = made.generation.get_weights()
        made.generation.set_weights([0 * kernel, bias + 100.0])  # p_gen = 1: always generate
    return made


def main():
    train, test = split(rows())
    first = {name: train[name][:1] for name in ("token_ids", "target_ids")}
    compare(
        {
            f"{name}{', coverage' * coverage}": lambda seed, copying=copying, coverage=coverage: (
                model(first, copying, coverage, seed)
            )
            for name, copying in (("no copying", False), ("copying", True))
            for coverage in (False, True)
        },
        train,
        test,
        steps=300,
        score="token_accuracy",
        seeds=2,
    )


if __name__ == "__main__":
    main()
