"""Metrics of classification and regression, in NumPy.

Each metric takes a label, a prediction and an optional weight per row. Rows with weight 0 are
padding and do not count. An undefined metric (no rows, no positives, a constant series) is 0.0.
"""

import math

import numpy as np

from keras_attn.tasks.classification.probabilities import mean_loss
from keras_attn.tasks.finetuning.correlations import as_rows, pearson, ratio, spearman
from keras_attn.tasks.finetuning.ranking import rank_metrics, ranks_in_groups


def confusion_counts(labels, predictions, num_classes, sample_weight=None):
    """Counts rows by label and prediction.

    Args:
        labels, predictions: Class indices `(N,)`.
        num_classes: Number of classes C.
        sample_weight: `(N,)`; None: 1.

    Returns:
        float64 `(C, C)`: `[label, prediction]`.
    """
    labels, predictions, weight = as_rows(labels, predictions, sample_weight)
    cells = labels.astype(np.int64) * num_classes + predictions.astype(np.int64)
    counts = np.bincount(cells, weights=weight, minlength=num_classes**2)
    return counts.reshape(num_classes, num_classes)


def accuracy(labels, predictions, sample_weight=None):
    """Fraction of correct predictions."""
    labels, predictions, weight = as_rows(labels, predictions, sample_weight)
    return ratio(np.sum(weight * (labels == predictions)), np.sum(weight))


def f1(labels, predictions, sample_weight=None):
    """F1 of class 1: `2 TP / (2 TP + FP + FN)`, as in GLUE."""
    labels, predictions, weight = as_rows(labels, predictions, sample_weight)
    return _class_f1(labels == 1, predictions == 1, weight)


def f1_macro(labels, predictions, sample_weight=None):
    """Mean F1 of the classes that occur in labels or predictions."""
    labels, predictions, weight = as_rows(labels, predictions, sample_weight)
    classes = np.union1d(labels, predictions)
    scores = [_class_f1(labels == c, predictions == c, weight) for c in classes]
    return float(np.mean(scores)) if scores else 0.0


def matthews(labels, predictions, sample_weight=None):
    """Matthews correlation coefficient for any number of classes.

    Reference:
        Gorodkin, Comparing two K-category assignments by a K-category
        correlation coefficient, 2004, eq. 8.
    """
    labels, predictions, weight = as_rows(labels, predictions, sample_weight)
    if not labels.size:
        return 0.0
    classes = int(max(labels.max(), predictions.max())) + 1
    counts = confusion_counts(labels, predictions, classes, weight)
    total, by_label, by_prediction = counts.sum(), counts.sum(axis=1), counts.sum(axis=0)
    covariance = np.trace(counts) * total - by_label @ by_prediction
    label_variance = total**2 - by_label @ by_label
    prediction_variance = total**2 - by_prediction @ by_prediction
    return ratio(covariance, math.sqrt(max(label_variance * prediction_variance, 0.0)))


def mean_squared_error(labels, predictions, sample_weight=None):
    """Mean squared error."""
    labels, predictions, weight = as_rows(labels, predictions, sample_weight)
    difference = labels.astype(np.float64) - predictions.astype(np.float64)
    return ratio(np.sum(weight * difference**2), np.sum(weight))


METRICS = {
    "accuracy": accuracy,
    "f1": f1,
    "f1_macro": f1_macro,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
    "mean_squared_error": mean_squared_error,
}


MULTILABEL_METRICS = ("f1_micro", "f1_macro", "accuracy")


def metric_names(kind, num_classes=0, known=None, chosen=None):
    """Returns the names of the metrics of a task; the first one is the main metric.

    Args:
        kind: See `probabilities`.
        num_classes: Number of classes of a task with single labels.
        known: Metrics of a GLUE task; None: the defaults.
        chosen: Additional metric, ignored if the kind does not have it.
    """
    if kind == "multilabel":
        return MULTILABEL_METRICS
    if kind == "regression":
        return tuple(known or ("pearson", "spearman", "mean_squared_error"))
    two = num_classes == 2
    names = tuple(known or ("accuracy", "f1" if two else "f1_macro"))
    others = ("accuracy", "f1_macro", "matthews", *(["f1"] if two else []))
    return (*names, chosen) if chosen in others and chosen not in names else names


def choosable_metrics(kind, num_classes=0, known=None):
    """Returns the names of all metrics that `metric_names` accepts as `chosen`."""
    return tuple(
        name
        for name in (*METRICS, *MULTILABEL_METRICS)
        if name in metric_names(kind, num_classes, known, name)
    )


def classification_metrics(labels, logits, names=None, regression=False, sample_weight=None):
    """Computes the metrics of single labels or of a regression.

    Args:
        labels: Class indices `(N,)`, or numbers `(N,)` for regression.
        logits: `(N, C)`; the class with the largest one is predicted. For regression the predicted
            numbers, `(N,)` or `(N, 1)`.
        names: Names in `METRICS`; None: those of `metric_names`.
        regression: Whether labels are numbers.
        sample_weight: `(N,)`; None: 1.

    Returns:
        Dict from names to floats.

    Raises:
        ValueError: If a name is unknown, shapes do not match, or `f1` is used with more than two
            classes.
    """
    labels, logits = np.asarray(labels), np.asarray(logits)
    if regression:
        predictions = logits.reshape(len(logits), -1)
        if predictions.shape[1] != 1:
            raise ValueError(f"Regression requires one output per row. Received: {logits.shape}")
        predictions = predictions[:, 0]
        names = names or metric_names("regression")
    else:
        if logits.ndim != 2:
            raise ValueError(f"Logits must have shape (N, C). Received: shape={logits.shape}")
        predictions = np.argmax(logits, axis=-1)
        names = names or metric_names("single_label", logits.shape[1])
        if "f1" in names and logits.shape[1] != 2:
            raise ValueError(
                f"f1 requires two classes. Use f1_macro. Received: logits of shape {logits.shape}"
            )
    unknown = [name for name in names if name not in METRICS]
    if unknown:
        raise ValueError(f"Metrics must be among {', '.join(METRICS)}. Received: {unknown}")
    return {name: METRICS[name](labels, predictions, sample_weight) for name in names}


def multilabel_metrics(labels, chosen):
    """Computes the metrics of multilabel classification.

    Args:
        labels: `(N, C)`, 1 if a row has the label.
        chosen: Predicted labels, bool `(N, C)`.

    Returns:
        Dict: `f1_micro` over all rows and labels; `f1_macro`, the mean F1 of the labels;
        `accuracy`, the fraction of rows with all labels correct.
    """
    labels, chosen = np.asarray(labels) > 0, np.asarray(chosen, bool)
    if labels.ndim != 2 or labels.shape != chosen.shape:
        raise ValueError(
            "Labels and predictions must have shape (N, C). "
            f"Received: {labels.shape}, {chosen.shape}"
        )
    each = [_class_f1(labels[:, c], chosen[:, c], 1.0) for c in range(labels.shape[1])]
    return {
        "f1_micro": _class_f1(labels, chosen, 1.0),
        "f1_macro": float(np.mean(each)) if each else 0.0,
        "accuracy": ratio(np.sum(np.all(labels == chosen, axis=1)), len(labels)),
    }


def task_metrics(labels, predicted, kind, names=None, deviation=1.0):
    """Computes the metrics of a task and its loss.

    Args:
        labels: See `encode_labels`.
        predicted, kind: See `probabilities`.
        names: Names in `METRICS`; None: those of `metric_names`.
        deviation: See `mean_loss`.

    Returns:
        Dict from names to floats; the last one is `loss`.
    """
    if kind == "multilabel":
        named = multilabel_metrics(labels, predicted > 0.5)
    else:
        named = classification_metrics(labels, predicted, names, regression=kind == "regression")
    return {**named, "loss": mean_loss(labels, predicted, kind, deviation)}


def group_metrics(groups, labels, predicted):
    """Computes the metrics of reranking by the probability of the second of two classes.

    Args:
        groups: Names `(N,)`, each of which has a row of the second class.
        labels: Indices of classes `(N,)`.
        predicted: Probabilities `(N, 2)`.

    Returns:
        Dict of the metrics `RETRIEVAL`.
    """
    return rank_metrics(ranks_in_groups(groups, labels == 1, predicted[:, 1]))


def _class_f1(actual, predicted, weight):
    hits = np.sum(weight * (actual & predicted))
    return ratio(2 * hits, np.sum(weight * actual) + np.sum(weight * predicted))
