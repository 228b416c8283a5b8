"""Correlation coefficients of rows with weights."""

import math

import numpy as np

MAX_SCORE = 1e15  # sums of squares of more rows than fit in memory are finite in float32


def pearson(labels, predictions, sample_weight=None):
    """Pearson correlation coefficient."""
    labels, predictions, weight = as_rows(labels, predictions, sample_weight)
    if not labels.size or np.ptp(labels) == 0 or np.ptp(predictions) == 0:
        return 0.0
    weight = weight / np.sum(weight)
    x, y = labels.astype(np.float64), predictions.astype(np.float64)
    x, y = x - weight @ x, y - weight @ y
    correlation = ratio(weight @ (x * y), math.sqrt((weight @ x**2) * (weight @ y**2)))
    return min(1.0, max(-1.0, correlation))


def spearman(labels, predictions, sample_weight=None):
    """Spearman correlation coefficient: Pearson's of the ranks; ties have their mean rank."""
    labels, predictions, weight = as_rows(labels, predictions, sample_weight)
    return pearson(_ranks(labels), _ranks(predictions), weight)


def as_rows(labels, predictions, sample_weight):
    """Returns labels, predictions and float64 weights of the rows with a weight other than 0."""
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    weight = np.ones(labels.shape) if sample_weight is None else np.asarray(sample_weight)
    if labels.ndim != 1 or not labels.shape == predictions.shape == weight.shape:
        raise ValueError(
            "Labels, predictions and weights must have the same shape (N,). Received: "
            f"{labels.shape}, {predictions.shape}, {weight.shape}"
        )
    counted = weight != 0
    return labels[counted], predictions[counted], weight[counted].astype(np.float64)


def ratio(numerator, denominator):
    """Returns a quotient, 0 unless the denominator is positive."""
    return float(numerator / denominator) if denominator > 0 else 0.0


def _ranks(values):
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[inverse]
