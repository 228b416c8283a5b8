"""What a report says of predictions, in NumPy."""

import math
from typing import NamedTuple

import numpy as np

from keras_attn.tasks.classification.metrics import confusion_counts

Z = 1.959963984540054  # of a normal value, 95 % lie within so many deviations


class Scores(NamedTuple):
    """Precision, recall and F1; 0.0 where one is not defined."""

    precision: float
    recall: float
    f1: float


def class_scores(actual, predicted, every=False):
    """Scores of each class, and their averages.

    Args:
        actual, predicted: bool `(N, C)`, the classes that a row has and is given.
        every: Whether macro is the mean of all classes, or of those that occur, in `actual` or
            `predicted`.

    Returns:
        `(scores of each class, macro, micro)`. Micro counts all decisions alike.
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
    """Class indices `(N,)` as bool `(N, count)`."""
    return np.asarray(classes)[:, None] == np.arange(count)


class Decisions(NamedTuple):
    """What is so and what is predicted, `(N, C)`; how sure that is and whether it is right.

    The last two are `(N, 1)` of single labels and `(N, C)` of several, each of which is decided.
    """

    actual: np.ndarray
    predicted: np.ndarray
    sure: np.ndarray
    right: np.ndarray


def decisions(labels, shares, kind):
    """`Decisions` of probabilities `(N, C)`; labels and kind as in `details`."""
    if kind == "multilabel":
        actual, predicted = np.asarray(labels) > 0, shares > 0.5
        return Decisions(actual, predicted, np.maximum(shares, 1 - shares), actual == predicted)
    actual, predicted = (
        one_hot(classes, shares.shape[1]) for classes in (labels, shares.argmax(axis=1))
    )
    return Decisions(
        actual,
        predicted,
        shares.max(axis=1, keepdims=True),
        (actual == predicted).all(axis=1, keepdims=True),
    )


def details(names, labels, shares, kind):
    """What results.json tells of each class.

    Args:
        names: Of the classes; none for regression.
        labels: Class indices or numbers `(N,)`; of several labels `(N, C)`.
        shares, kind: See `probabilities`.

    Returns:
        Dict: `classes`, by name `precision`, `recall`, `f1` and how many `rows` it has; `macro` and
        `micro`, the same of all; of single labels `confusion`, rows by label (a list) and
        prediction; `calibration_error`; `accuracy_range`, the ends of `share_interval`. Empty for
        regression.
    """
    if kind == "regression":
        return {}
    several = kind == "multilabel"
    actual, predicted, sure, right = decisions(labels, shares, kind)
    each, macro, micro = class_scores(actual, predicted, every=several)
    found = {
        "classes": {
            name: {**scores._asdict(), "rows": int(rows)}
            for name, scores, rows in zip(names, each, actual.sum(axis=0), strict=True)
        },
        "macro": macro._asdict(),
        "micro": micro._asdict(),
        "calibration_error": float(calibration(sure.ravel(), right.ravel())[1]),
        "accuracy_range": [*share_interval(float(right.all(axis=1).mean()), len(right))],
    }
    if not several:
        found["confusion"] = (
            confusion_counts(labels, shares.argmax(axis=1), len(names)).astype(int).tolist()
        )
    return found


def mean_scores(found):
    """Means of the scores of classes over runs on the same rows.

    Args:
        found: Dicts of `classes`, `macro` and `micro`, as `details` tells them; or without.

    Returns:
        One such dict; empty if one of them has none.
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


def told_classes(found):
    """Lines of what `details` tells of classes; none without them."""
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


def share_interval(share, rows):
    """Ends of the 95 % interval of a share of independent rows.

    Reference:
        Wilson, Probable inference, the law of succession, and statistical inference, 1927.
    """
    middle = share + Z**2 / (2 * rows)
    half = Z * math.sqrt(share * (1 - share) / rows + Z**2 / (4 * rows**2))
    low, high = ((middle + side) / (1 + Z**2 / rows) for side in (-half, half))
    return max(0.0, low), min(1.0, high)


class Bin(NamedTuple):
    """Predictions whose probability lies in `[low, high)`; the last bin has 1, too."""

    low: float
    high: float
    rows: int
    probability: float
    accuracy: float


def calibration(probabilities, right, bins=10):
    """Compares the probabilities of predictions with how often these were right.

    Args:
        probabilities: `(N,)`, of what was predicted.
        right: bool `(N,)`.
        bins: Into which [0, 1] is cut.

    Returns:
        `(bins that have rows, expected calibration error)`: the mean difference between
        probability and accuracy of a bin, weighted by its rows.

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


def surest_errors(sure, right, most=20):
    """Numbers of the rows whose prediction was wrong, the surest first."""
    wrong = np.flatnonzero(~right)
    return wrong[np.argsort(-sure[wrong], kind="stable")][:most]


def most_confused(counts, most):
    """The classes with the most errors in a confusion matrix `(C, C)`, in ascending order."""
    errors = counts.sum(axis=0) + counts.sum(axis=1) - 2 * np.diag(counts)
    return np.sort(np.argsort(-errors, kind="stable")[:most])
