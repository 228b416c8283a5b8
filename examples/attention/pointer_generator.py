"""Copying: tell who gave what to whom, with names that are in no vocabulary.

    python examples/attention/pointer_generator.py [--seeds=2] [--steps=300]

Made up: reports "filler A gave filler B to filler C filler", of which the summary is "C has B from
A". Fillers are out of 20 words and half of the names out of 300; the others are words that stand
nowhere else, a quarter of what is to be told. The model without copying is the same otherwise.
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
    a, b, c = np.where(new, VOCABULARY + new.cumsum(axis=0) - 1,
                       rng.integers(NAME, VOCABULARY, size=(3, count)))
    first, second, third, last = rng.integers(FILLER, NAME, size=(4, count))
    source = [first, a, GAVE, second, b, TO, third, c, last]
    target = [c, HAS, b, FROM, a]
    source, target_ids, label = (
        np.stack([np.broadcast_to(word, count) for word in words], axis=1).astype("int32")
        for words in (source, [BEGIN, *target], [*target, END]))
    return {"token_ids": source, "target_ids": target_ids, "label": label}


def model(first, copying, coverage, seed):
    made = PointerGenerator(VOCABULARY, 3, 32, 32, coverage=coverage, seed=seed)
    if not copying:
        made(first)
        made.generation.trainable = False
        kernel, bias = made.generation.get_weights()
        made.generation.set_weights([0 * kernel, bias + 100.0])  # a share of 1
    return made


def main():
    train, test = split(rows())
    first = {name: train[name][:1] for name in ("token_ids", "target_ids")}
    compare({
        f"{name}{', coverage' * coverage}": lambda seed, copying=copying, coverage=coverage: model(
            first, copying, coverage, seed)
        for name, copying in (("no copying", False), ("copying", True))
        for coverage in (False, True)
    }, train, test, steps=300, score="token_accuracy", seeds=2)


if __name__ == "__main__":
    main()
