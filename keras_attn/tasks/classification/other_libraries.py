"""Classifier heads in checkpoints of other libraries: labels, dropout rate, regression units."""

import dataclasses
from reprlib import repr as shorten

import numpy as np

from keras_attn.checkpoints.huggingface_config import id2label, read_id2label
from keras_attn.errors import UserError


def read_classifier(config, path, dropout):
    """Returns the arguments of the head and the labels; see `Task.read_head`.

    Raises:
        UserError: If the labels or the dropout rate are invalid.
    """
    labels, problem = read_id2label(config, path), config.get("problem_type")
    multilabel = problem == "multi_label_classification"
    if not multilabel and (len(labels) == 1 or problem == "regression"):
        labels = []
    rate = config[dropout] if dropout else 0.0
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate < 1:
        raise UserError(f"{dropout} must be in [0, 1). Received: {shorten(rate)} in {path}")
    heads = {"num_classes": len(labels) or 1, "dropout": rate, "multilabel": multilabel}
    return heads, {"labels": labels}


def write_classifier(trained, dropout):
    """Returns the fields of config.json that `read_classifier` reads."""
    names = trained.files["labels"]
    labels = names or ["LABEL_0"]
    return {
        **({dropout: trained.heads["dropout"]} if dropout else {}),
        "id2label": id2label(labels),
        "label2id": {label: number for number, label in enumerate(labels)},
        "problem_type": "multi_label_classification"
        if trained.heads.get("multilabel")
        else "single_label_classification"
        if names
        else "regression",
    }


def rescale_regression(trained):
    """Returns the model with a regression head that predicts labels without `label_mean` and
    `label_deviation`, which other libraries lack."""
    heads = dict(trained.heads)
    mean, deviation = heads.pop("label_mean", 0.0), heads.pop("label_deviation", 1.0)
    if (mean, deviation) == (0.0, 1.0):
        return trained
    kernel, bias = (
        np.asarray(trained.weights[f"logits_dense/{name}"]) for name in ("kernel", "bias")
    )
    return dataclasses.replace(
        trained,
        heads=heads,
        weights={
            **trained.weights,
            "logits_dense/kernel": kernel * np.float32(deviation),
            "logits_dense/bias": bias * np.float32(deviation) + np.float32(mean),
        },
    )
