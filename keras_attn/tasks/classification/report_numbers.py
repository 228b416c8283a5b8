"""Statistics of predictions for reports and results.json, in NumPy."""

import math
from typing import NamedTuple

import numpy as np

from keras_attn.tasks.classification.metrics import confusion_counts

Z = 1.959963984540054  # 97.5 % quantile of the standard normal distribution


class Scores(NamedTuple):
    """Precision, recall and F1; 0.0 if undefined."""

    precision: float
    recall: float
    f1: float


def class_scores(actual, predicted, every=False):
    """Returns precision, recall and F1 of each class, and their averages.

    Args:
        actual, predicted: Labels and predictions, bool `(N, C)`.
        every: Whether the macro average includes classes that occur in neither.

    Returns:
        (`Scores` of each class, macro average, micro average).
    """
    hits = np.sum(actual & predicted, axis=0)
    given, wanted = predicted.sum(axis=0), actual.sum(axis=0)
    classes = [_scores(*counts) for counts in zip(hits, given, wanted, strict=True)]
    occurring = [
        scores for scores, seen in zip(classes, given + wanted, strict=True) if seen or every
    ]
    macro = Scores(*np.mean(occurring, axis=0).tolist()) if occurring else Scores(0.0, 0.0, 0.0)
    return classes, macro, _scores(hits.sum(), given.sum(), wanted.sum())


def _scores(hits, given, wanted):
    return Scores(
        *(float(hits / total) if total else 0.0 for total in (given, wanted, (given + wanted) / 2))
    )


def one_hot(classes, count):
    """Returns class indices `(N,)` as bool `(N, count)`."""
    return np.asarray(classes)[:, None] == np.arange(count)


class Decisions(NamedTuple):
    """Labels and predictions as decisions on classes.

    Attributes:
        actual, predicted: bool `(N, C)`.
        confidence: Probability of each decision: `(N, C)` for multilabel, else `(N, 1)`.
        right: Whether each decision is correct, in the shape of `confidence`.
    """

    actual: np.ndarray
    predicted: np.ndarray
    confidence: np.ndarray
    right: np.ndarray


def decisions(labels, predicted, kind):
    """Returns the `Decisions` of probabilities `(N, C)`; labels and kind as in `class_details`."""
    if kind == "multilabel":
        actual, chosen = np.asarray(labels) > 0, predicted > 0.5
        return Decisions(actual, chosen, np.maximum(predicted, 1 - predicted), actual == chosen)
    actual, chosen = (
        one_hot(classes, predicted.shape[1]) for classes in (labels, predicted.argmax(axis=1))
    )
    return Decisions(
        actual,
        chosen,
        predicted.max(axis=1, keepdims=True),
        (actual == chosen).all(axis=1, keepdims=True),
    )


def class_details(names, labels, predicted, kind):
    """Returns the entries of results.json on classes.

    Args:
        names: Names of the classes; () for regression.
        labels: See `encode_labels`.
        predicted, kind: See `probabilities`.

    Returns:
        Dict: `classes`, with `precision`, `recall`, `f1` and the number of `rows` of each class by
        name; their averages `macro` and `micro`; for single labels `confusion`, counts by label
        and prediction; `calibration_error`; `accuracy_range`, see `proportion_interval`. Empty for
        regression.
    """
    if kind == "regression":
        return {}
    several = kind == "multilabel"
    actual, chosen, confidence, right = decisions(labels, predicted, kind)
    each, macro, micro = class_scores(actual, chosen, every=several)
    found = {
        "classes": {
            name: {**scores._asdict(), "rows": int(rows)}
            for name, scores, rows in zip(names, each, actual.sum(axis=0), strict=True)
        },
        "macro": macro._asdict(),
        "micro": micro._asdict(),
        "calibration_error": float(calibration(confidence.ravel(), right.ravel())[1]),
        "accuracy_range": [*proportion_interval(float(right.all(axis=1).mean()), len(right))],
    }
    if not several:
        found["confusion"] = (
            confusion_counts(labels, predicted.argmax(axis=1), len(names)).astype(int).tolist()
        )
    return found


def mean_class_scores(found):
    """Averages the scores of classes over runs on the same rows.

    Args:
        found: Results of the runs, which may contain the entries of `class_details`.

    Returns:
        Dict of `classes`, `macro` and `micro`; empty if a run lacks them.
    """
    if not all("classes" in one for one in found):
        return {}

    def mean(scores):
        return {name: float(np.mean([one[name] for one in scores])) for name in Scores._fields}

    first = found[0]
    return {
        "classes": {
            name: {**mean([one["classes"][name] for one in found]), "rows": scores["rows"]}
            for name, scores in first["classes"].items()
        },
        **{average: mean([one[average] for one in found]) for average in ("macro", "micro")},
    }


def class_lines(found):
    """Yields the lines of a table of the scores of classes, if there are any."""
    classes = found.get("classes", {})
    if classes:
        width = max(map(len, ["", *classes])) + 1
        yield f"{'':{width}} precision  recall      f1     rows"
        for name, scores in [
            *classes.items(),
            ("macro", found["macro"]),
            ("micro", found["micro"]),
        ]:
            rows = f"{scores['rows']:8,}" if "rows" in scores else ""
            yield (
                f"{name:{width}} {scores['precision']:9.4f} {scores['recall']:7.4f} "
                f"{scores['f1']:7.4f} {rows}"
            ).rstrip()


def proportion_interval(proportion, rows):
    """Returns the Wilson 95 % confidence interval of a proportion of independent rows.

    Reference:
        Wilson, Probable inference, the law of succession, and statistical inference, 1927.
    """
    middle = proportion + Z**2 / (2 * rows)
    half = Z * math.sqrt(proportion * (1 - proportion) / rows + Z**2 / (4 * rows**2))
    low, high = ((middle + side) / (1 + Z**2 / rows) for side in (-half, half))
    return max(0.0, low), min(1.0, high)


class Bin(NamedTuple):
    """Predictions with a probability in `[low, high)`; the last bin includes 1."""

    low: float
    high: float
    rows: int
    probability: float
    accuracy: float


def calibration(probabilities, right, bins=10):
    """Compares the probabilities of predictions with their accuracy.

    Args:
        probabilities: Probabilities of the predictions, `(N,)`.
        right: Whether each prediction is correct, bool `(N,)`.
        bins: Number of bins of [0, 1].

    Returns:
        (bins that are not empty, expected calibration error): the mean absolute difference
        between the probability and the accuracy of a bin, weighted by its rows.

    Reference:
        Guo et al., On calibration of modern neural networks, 2017, eq. 3.
    """
    number = np.minimum((probabilities * bins).astype(int), bins - 1)
    found = []
    for k in np.unique(number):
        inside = number == k
        found.append(
            Bin(
                k / bins,
                (k + 1) / bins,
                int(inside.sum()),
                float(probabilities[inside].mean()),
                float(right[inside].mean()),
            )
        )
    error = sum(b.rows * abs(b.accuracy - b.probability) for b in found) / len(probabilities)
    return found, error


def most_confident_errors(confidence, right, most=20):
    """Returns the numbers of the wrong predictions, by decreasing confidence."""
    wrong = np.flatnonzero(~right)
    return wrong[np.argsort(-confidence[wrong], kind="stable")][:most]


def most_confused(counts, most):
    """Returns the classes with the most errors in a confusion matrix `(C, C)`, sorted."""
    errors = counts.sum(axis=0) + counts.sum(axis=1) - 2 * np.diag(counts)
    return np.sort(np.argsort(-errors, kind="stable")[:most])
