"""What is the same in every library: rows, batches of 32, rates, and how an epoch is told."""

import json

import numpy as np

LENGTH, BATCH = 128, 32
LAYERS, HIDDEN_DIM, HEADS = 4, 256, 4
DECAY, EPSILON, CLIP = 0.01, 1e-6, 1.0


def read_rows(options):
    """`{"train": (texts, labels), "validation": (texts, labels)}`, labels int32 `(N,)`."""
    with open(options["data"]) as file:
        return {split: (texts, np.array(labels, np.int32))
                for split, (texts, labels) in json.load(file).items()}


def learning_rates(rows, peak=1e-4):
    """Of the steps of an epoch: they rise for a tenth of it, then fall to 0."""
    steps = rows // BATCH
    at = np.arange(1, steps + 1) / (steps + 1)
    return (peak * np.minimum(at / 0.1, (1 - at) / 0.9)).astype(np.float32)


def work_of(labels, steps, train, validate, seconds):
    """What a contender serves: so many further steps, or with 0 of them the outcome.

    Args:
        labels: Of the rows of validation.
        steps: Of the epoch.
        train: Function of `(first, stop)` that takes these steps of the epoch.
        validate: Function that returns logits `(N, 2)` of the rows of validation, and the mean
            number of tokens, with padding, of the rows trained on.
        seconds: That tokenizing took, or None if it happens in training.
    """
    done = 0

    def work(count):
        nonlocal done
        if done + count > steps:
            raise ValueError(f"The epoch ends after {steps} steps: more rows are needed")
        if count:
            train(done, done + count)
            done += count
            return {"done": done}
        logits, tokens = validate()
        return {"accuracy": float(np.mean(np.argmax(logits, -1) == labels)), "tokens": tokens,
                "tokenizing": seconds, "done": done}

    return work
