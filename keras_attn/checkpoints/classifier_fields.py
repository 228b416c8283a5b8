"""Classifiers in other libraries: their labels, and how transformers tells of them."""

import dataclasses
from reprlib import repr as shorten

import numpy as np

from keras_attn.data.sources.table_formats import is_text
from keras_attn.errors import UserError


def check_class_names(names, field, path):
    """Raises a `UserError` if names of classes are not different texts.

    Args:
        names: What a JSON file has as the list of names; empty for regression.
        field, path: Of the file, for the message.
    """
    if not isinstance(names, list) or not all(
            isinstance(name, str) and is_text(name) for name in names):
        raise UserError(f"{field} must be a list of strings, one for each class. "
                        f"Received: {shorten(names)} in {path}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"{field} must be different. Received: {shorten(twice)} twice in {path}")


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
    if not labels:
        raise UserError("id2label must name the classes 0, 1, …. "
                        f"Received: {shorten(names)} in {path}")
    check_class_names(labels, "id2label", path)
    return labels


def numbered(labels):
    """`id2label` of some labels."""
    return {str(number): label for number, label in enumerate(labels)}


def read_classifier(config, field, path, usual=None):
    """What a config.json says of a classifier.

    Args:
        config: Dictionary.
        field: Its name for the share that is dropped before the classes; None: none is.
        path: Of the file, for messages.
        usual: That share where the file has None.

    Returns:
        (labels, heads): names of the classes, [] for regression; `num_classes`, `dropout` and
        `multilabel`.

    Raises:
        UserError: If labels or share are none.
    """
    labels, problem = read_labels(config, path), config.get("problem_type")
    multilabel = problem == "multi_label_classification"
    if not multilabel and (len(labels) == 1 or problem == "regression"):
        labels = []
    dropout = 0.0 if field is None else usual if config[field] is None else config[field]
    if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout < 1:
        raise UserError(f"{field} must be in [0, 1). Received: {shorten(dropout)} in {path}")
    return labels, {"num_classes": len(labels) or 1, "dropout": dropout, "multilabel": multilabel}


def written_classifier(trained, field):
    """The fields of a config.json that tell of a classifier; see `read_classifier`."""
    labels = trained.labels or ["LABEL_0"]
    return {
        **({field: trained.heads["dropout"]} if field else {}), "id2label": numbered(labels),
        "label2id": {label: number for number, label in enumerate(labels)},
        "problem_type": "multi_label_classification" if trained.heads.get("multilabel") else
        "single_label_classification" if trained.labels else "regression"}


def in_units_of_labels(trained):
    """The trained model whose regression head predicts in the units of the labels, as in other
    libraries."""
    heads = dict(trained.heads)
    mean, deviation = heads.pop("label_mean", 0.0), heads.pop("label_deviation", 1.0)
    if (mean, deviation) == (0.0, 1.0):
        return trained
    kernel, bias = (np.asarray(trained.weights[f"logits_dense/{name}"]) for name in (
        "kernel", "bias"))
    return dataclasses.replace(trained, heads=heads, weights={
        **trained.weights, "logits_dense/kernel": kernel * np.float32(deviation),
        "logits_dense/bias": bias * np.float32(deviation) + np.float32(mean)})
