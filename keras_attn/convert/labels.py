"""Labels of classifiers in other libraries."""

import dataclasses
from reprlib import repr as shorten

import numpy as np

from keras_attn.errors import UserError


def read_labels(config, path):
    """Names of the classes in `id2label`.

    Raises:
        UserError: If they are not numbered 0, 1, …, or two have one name.
    """
    names = config["id2label"]
    try:
        labels = [names[str(number)] for number in range(len(names))]
    except (KeyError, TypeError):
        labels = None
    if not labels or not all(isinstance(label, str) for label in labels):
        raise UserError("id2label must name the classes 0, 1, …. "
                        f"Received: {shorten(names)} in {path}")
    if len(set(labels)) < len(labels):
        raise UserError("id2label must give each class a name of its own. "
                        f"Received: {shorten(names)} in {path}")
    return labels


def numbered(labels):
    """`id2label` of some labels."""
    return {str(number): label for number, label in enumerate(labels)}


def in_units_of_labels(stored):
    """The stored model whose head itself tells a regression's labels, as in other libraries."""
    heads = dict(stored.heads)
    mean, deviation = heads.pop("label_mean", 0.0), heads.pop("label_deviation", 1.0)
    if (mean, deviation) == (0.0, 1.0):
        return stored
    kernel, bias = (np.asarray(stored.weights[f"logits_dense/{name}"]) for name in (
        "kernel", "bias"))
    return dataclasses.replace(stored, heads=heads, weights={
        **stored.weights, "logits_dense/kernel": kernel * np.float32(deviation),
        "logits_dense/bias": bias * np.float32(deviation) + np.float32(mean)})
