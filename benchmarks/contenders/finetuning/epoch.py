"""What all libraries share: examples, batch size, learning rates, and the report of an epoch."""

import json

import numpy as np

LENGTH, BATCH = 128, 32
LAYERS, HIDDEN_DIM, HEADS = 4, 256, 4
DECAY, EPSILON, CLIP = 0.01, 1e-6, 1.0


def read_rows(options):
    """Returns `{split: (texts, labels)}` of "train" and "validation"; labels are int32 `(N,)`."""
    with open(options["data"]) as file:
        return {
            split: (texts, np.array(labels, np.int32))
            for split, (texts, labels) in json.load(file).items()
        }


def learning_rates(rows, peak=1e-4):
    """Returns the learning rate of each step: linear warmup over 10 %, then linear decay to 0."""
    steps = rows // BATCH
    progress = np.arange(1, steps + 1) / (steps + 1)
    return (peak * np.minimum(progress / 0.1, (1 - progress) / 0.9)).astype(np.float32)


def work_of(labels, steps, train, validate, seconds):
    """Returns the work that a contender serves: further steps, or with a count of 0 the results.

    Args:
        labels: Labels of the validation set.
        steps: Number of steps of the epoch.
        train: Function of `(first, stop)` that runs these steps of the epoch.
        validate: Function that returns logits `(N, 2)` of the validation set, and the mean number
            of tokens, padding included, per training example.
        seconds: Tokenization time, or None if it is part of training.
    """
    done = 0

    def work(count):
        nonlocal done
        if done + count > steps:
            raise ValueError(f"The epoch has only {steps} steps: more examples are required")
        if count:
            train(done, done + count)
            done += count
            return {"done": done}
        logits, tokens = validate()
        return {
            "accuracy": float(np.mean(np.argmax(logits, -1) == labels)),
            "tokens": tokens,
            "tokenizing": seconds,
            "done": done,
        }

    return work
