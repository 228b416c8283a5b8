"""What the examples in this folder share: how models are compared, and text that is always there.

Each example trains a model with attention and the like without, or variants, and prints a line of
each: the mean over seeds, with the lowest and highest, on rows that were not trained on. All have
about as many weights, some by other widths, and learn at one rate: none is tuned by itself. Data
is made up as told, or text of the Python that runs, so numbers differ a little between versions.
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


def compare(models, train, test, steps, score="accuracy", batch_size=64, seeds=3,
            rate=3e-3, xla="auto"):
    """Trains models and prints how good they are.

    Args:
        models: `{name: function}`, of a seed to a Keras model.
        train, test: Rows: a dictionary for models that have their own loss, or (x, y) or
            (x, y, weights) for those that return logits.
        steps: Batches to train on.
        score: Name of the metric that is shown.
        batch_size: Rows of a batch.
        seeds: Models of each kind.
        rate: Learning rate of Adam; it falls to 0 by a cosine.
        xla: Whether XLA compiles the steps, on a CPU too, which the first one waits for; "auto":
            as Keras decides. Of no effect on PyTorch.
    """
    options = _options(seeds, steps)
    steps = options.steps
    width = max(map(len, models))
    print(f"{'':{width}}  {score}, mean (lowest to highest) of {options.seeds}  weights  seconds")
    for name, make in models.items():
        begin, found = time.monotonic(), []
        for seed in range(options.seeds):
            keras.utils.set_random_seed(seed)
            model = make(seed)
            _compile(model, train, keras.optimizers.schedules.CosineDecay(rate, steps), xla)
            size, rng = len(tree.flatten(train)[0]), np.random.default_rng(seed)
            order = np.concatenate([rng.permutation(size)
                                    for _ in range(-(-steps * batch_size // size))])
            rows = tree.map_structure(lambda x: x[order[:steps * batch_size]], train)  # noqa: B023
            model.fit(**_arguments(rows), batch_size=batch_size, shuffle=False, verbose=0)
            results = model.evaluate(**_arguments(test), batch_size=256, verbose=0,
                                     return_dict=True)
            found.append(results[score])
        told = f"{np.mean(found):.3f} ({min(found):.3f} to {max(found):.3f})"
        weights = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
        print(f"{name:{width}}  {told:>{len(score) + 31}}  {weights:7,}  "
              f"{time.monotonic() - begin:7.0f}", flush=True)


def _options(seeds, steps):
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=seeds, help=f"models of each kind ({seeds})")
    parser.add_argument("--steps", type=int, default=steps, help=f"batches to train on ({steps})")
    return parser.parse_args()


def _compile(model, rows, rate, xla):
    losses = {} if isinstance(rows, dict) else {
        "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        "weighted_metrics": ["accuracy"]}
    model.compile(optimizer=keras.optimizers.Adam(rate, global_clipnorm=1.0),
                  jit_compile="auto" if keras.config.backend() == "torch" else xla, **losses)


def _arguments(rows):
    if isinstance(rows, dict):
        return {"x": rows}
    return dict(zip(("x", "y", "sample_weight"), rows, strict=False))


def labelled_words(length, vocabulary_size=4000):
    """Docstrings of installed packages, labelled by package, names of packages masked.

    Returns:
        (train, test, classes): rows of `token_ids` `(N, length)`, 0 where there is no word, and
        `label`; and how many classes there are.
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
        {"token_ids": padded([[id_of.get(word, UNKNOWN) for word in row] for row in words[split]],
                             length),
         "label": np.array([classes[name] for name in labels[split]], "int32")}
        for split in ("train", "validation"))
    return train, test, len(classes)


def names_of_functions(longest=24):
    """Names such as `read_text_file` in Python's standard library.

    Returns:
        Sorted list of str of at most `longest` characters.
    """
    files = Path(os.__file__).parent.glob("*.py")
    found = {name for file in files for name in re.findall(
        r"\b[a-z]+(?:_[a-z]+)+\b", file.read_text(encoding="utf-8"))}
    return sorted(name for name in found if len(name) <= longest)


def padded(rows, length):
    """Lists of integers as an array `(N, length)`, 0 after their ends."""
    array = np.zeros((len(rows), length), "int32")
    for line, row in zip(array, rows, strict=True):
        line[:len(row)] = row
    return array


def split(rows, test=1000):
    """Shuffles rows and takes the last `test` of them apart: (train, test).

    XLA compiles an evaluation once if `test` is a multiple of 256.
    """
    order = np.random.default_rng(0).permutation(len(tree.flatten(rows)[0]))
    return tuple(tree.map_structure(lambda x: x[part], rows)  # noqa: B023
                 for part in (order[:-test], order[-test:]))
