"""Probabilities of a classifier from its logits, and their loss, in float64."""

import numpy as np

_SMALLEST = np.finfo(np.float64).tiny  # bounds probabilities in logarithms
_ROUNDING = np.finfo(np.float64).eps / 2  # a smaller 1 - p is rounded to 0


def probabilities(logits, kind):
    """Returns the predictions of a classifier or a regression.

    Args:
        logits: `(N, C)`.
        kind: "single_label" (softmax), "multilabel" (sigmoid) or "regression" (no change).

    Returns:
        float64 `(N, C)`.
    """
    logits = np.asarray(logits, np.float64)
    if kind == "regression":
        return logits
    if kind == "multilabel":
        odds = np.exp(-np.abs(logits))
        return np.where(logits >= 0, 1.0, odds) / (1.0 + odds)
    odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)


def mean_loss(labels, predicted, kind, deviation=1.0):
    """Returns the training loss: mean cross-entropy, or mean squared error of a regression.

    Args:
        labels: See `encode_labels`.
        predicted: Predictions that `probabilities` returned.
        kind: See `probabilities`.
        deviation: `label_deviation` of a regression model, by which errors are divided.
    """
    if kind == "regression":
        return float(np.mean(((predicted[:, 0] - labels) / deviation) ** 2))
    if kind == "multilabel":
        own = np.where(labels > 0, predicted, np.maximum(1.0 - predicted, _ROUNDING))
    else:
        own = predicted[np.arange(len(labels)), labels]
    return float(-np.mean(np.log(np.maximum(own, _SMALLEST))))
