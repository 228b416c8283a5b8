"""From what a classifier puts out to probabilities, and their loss, in float64."""

import numpy as np

_LEAST = np.finfo(np.float64).tiny  # stands for a probability of 0 where a logarithm is taken
_ROUNDING = np.finfo(np.float64).eps / 2  # what 1 - p cannot be told from 0 below


def probabilities(logits, kind):
    """Probabilities of classes.

    Args:
        logits: `(N, C)`.
        kind: "single_label", where they add up to 1; "multilabel", where each label has its own;
            or "regression", whose values stay as they are.

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


def mean_loss(labels, shares, kind, deviation=1.0):
    """Mean cross-entropy, or squared error of a regression, as the loss of training is.

    Args:
        labels: Class indices or numbers `(N,)`; of several labels 0 and 1, `(N, C)`.
        shares: As `probabilities` gives them.
        kind: As there.
        deviation: `label_deviation` of a regression's model, the unit of the errors.
    """
    if kind == "regression":
        return float(np.mean(((shares[:, 0] - labels) / deviation) ** 2))
    if kind == "multilabel":
        own = np.where(labels > 0, shares, np.maximum(1.0 - shares, _ROUNDING))
    else:
        own = shares[np.arange(len(labels)), labels]
    return float(-np.mean(np.log(np.maximum(own, _LEAST))))
