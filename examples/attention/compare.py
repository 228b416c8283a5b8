"""Shared code of the examples: comparison of models, and text that every installation has.

Each example trains a model with attention and models without it, or several variants. It prints
one line per model: the mean of a metric on held-out data over the seeds, with the minimum and
maximum. All models have about the same number of weights, some through other layer sizes, and use
one learning rate; none is tuned. The data is synthetic, or text that comes with Python, so
results differ slightly between versions.
"""

import argparse
import os
import re
import sys
import time
from collections import Counter
from pathlib import Path

import keras
import numpy as np
from keras import tree

PADDING, UNKNOWN, BEGIN, END = range(4)


def compare(
    models, train, test, steps, score="accuracy", batch_size=64, seeds=3, rate=3e-3, xla="auto"
):
    """Trains models and prints their test metric.

    Args:
        models: `{name: function}`; a function takes a seed and returns a Keras model.
        train, test: Examples: a dictionary for models that have their own loss, or (x, y) or
            (x, y, weights) for models that return logits.
        steps: Number of training steps.
        score: Name of the metric to print.
        batch_size: Examples per batch.
        seeds: Number of models of each kind.
        rate: Peak learning rate of Adam; it decays to 0 along a cosine.
        xla: Whether XLA compiles the training step, also on a CPU. "auto" leaves the choice to
            Keras. Ignored on PyTorch.
    """
    options = _options(seeds, steps)
    steps = options.steps
    width = max(map(len, models))
    head = f"{score}: mean (min to max) of {options.seeds}"
    print(f"{'':{width}}  {head}  weights  seconds")
    for name, make in models.items():
        begin, scores = time.monotonic(), []
        for seed in range(options.seeds):
            keras.utils.set_random_seed(seed)
            model = make(seed)
            _compile(model, train, keras.optimizers.schedules.CosineDecay(rate, steps), xla)
            size, rng = len(tree.flatten(train)[0]), np.random.default_rng(seed)
            order = np.concatenate(
                [rng.permutation(size) for _ in range(-(-steps * batch_size // size))]
            )
            rows = tree.map_structure(lambda x: x[order[: steps * batch_size]], train)  # noqa: B023
            model.fit(**_arguments(rows), batch_size=batch_size, shuffle=False, verbose=0)
            results = model.evaluate(
                **_arguments(test), batch_size=256, verbose=0, return_dict=True
            )
            scores.append(results[score])
        summary = f"{np.mean(scores):.3f} ({min(scores):.3f} to {max(scores):.3f})"
        weights = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
        print(
            f"{name:{width}}  {summary:>{len(head)}}  {weights:7,}  "
            f"{time.monotonic() - begin:7.0f}",
            flush=True,
        )


def _options(seeds, steps):
    parser = argparse.ArgumentParser(
        description=sys.modules["__main__"].__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--seeds", type=int, default=seeds, help=f"number of models of each kind (default: {seeds})"
    )
    parser.add_argument(
        "--steps", type=int, default=steps, help=f"number of training steps (default: {steps})"
    )
    return parser.parse_args()


def _compile(model, rows, rate, xla):
    losses = (
        {}
        if isinstance(rows, dict)
        else {
            "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            "weighted_metrics": ["accuracy"],
        }
    )
    model.compile(
        optimizer=keras.optimizers.Adam(rate, global_clipnorm=1.0),
        jit_compile="auto" if keras.config.backend() == "torch" else xla,
        **losses,
    )


def _arguments(rows):
    if isinstance(rows, dict):
        return {"x": rows}
    return dict(zip(("x", "y", "sample_weight"), rows, strict=False))


def labelled_words(length, vocabulary_size=4000):
    """Returns docstrings of installed packages, labelled by package; package names are masked.

    Returns:
        (train, test, classes): Dictionaries of `token_ids` `(N, length)`, 0 for padding, and
        `label` `(N,)`; and the number of classes.
    """
    from keras_attn.data.sources.docstrings import labelled_docstrings

    words, labels = {}, {}
    for split in ("train", "validation"):
        texts, labels[split] = labelled_docstrings(split)
        words[split] = [re.findall(r"\w+|[^\w\s]", text.lower())[:length] for text in texts]
    common = Counter(word for row in words["train"] for word in row).most_common(vocabulary_size)
    id_of = {word: number for number, (word, _) in enumerate(common, start=2)}
    classes = {name: number for number, name in enumerate(sorted(set(labels["train"])))}
    train, test = (
        {
            "token_ids": padded(
                [[id_of.get(word, UNKNOWN) for word in row] for row in words[split]], length
            ),
            "label": np.array([classes[name] for name in labels[split]], "int32"),
        }
        for split in ("train", "validation")
    )
    return train, test, len(classes)


def names_of_functions(longest=24):
    """Finds names such as `read_text_file` in Python's standard library.

    Returns:
        Sorted list of strings of at most `longest` characters.
    """
    files = Path(os.__file__).parent.glob("*.py")
    names = {
        name
        for file in files
        for name in re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", file.read_text(encoding="utf-8"))
    }
    return sorted(name for name in names if len(name) <= longest)


def padded(rows, length):
    """Returns lists of integers as an array `(N, length)`, padded with 0."""
    array = np.zeros((len(rows), length), "int32")
    for line, row in zip(array, rows, strict=True):
        line[: len(row)] = row
    return array


def split(rows, test=1000):
    """Shuffles examples and returns (train, test), where `test` is the number of test examples.

    XLA compiles the evaluation only once if `test` is a multiple of 256.
    """
    order = np.random.default_rng(0).permutation(len(tree.flatten(rows)[0]))
    return tuple(
        tree.map_structure(lambda x: x[part], rows)  # noqa: B023
        for part in (order[:-test], order[-test:])
    )
