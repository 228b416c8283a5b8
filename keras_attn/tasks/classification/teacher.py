"""Predictions of a teacher, which a smaller classifier learns (knowledge distillation)."""

import numpy as np

from keras_attn.counts import counted
from keras_attn.errors import UserError

_SMALLEST = {"single_label": 1e-30, "multilabel": 1e-7}  # probability with a finite logit


def teacher_logits(run, table, names, kind):
    """Returns the logits of `train.teacher` for the rows of a table, or None without a teacher.

    Args:
        run: `Run`.
        table: `Table` of the training rows.
        names: Names of the classes; () for regression.
        kind: See `probabilities`.

    Returns:
        float32 `(N, C)`; for regression the predicted numbers `(N, 1)`.

    Raises:
        UserError: If the teacher is not a classifier with the same labels.
    """
    teacher = run.teacher
    if teacher is None:
        return None
    if teacher.task != "classification" or teacher.kind != kind or {*teacher.labels} != {*names}:
        labels = f" of {', '.join(teacher.labels)}" if getattr(teacher, "labels", None) else ""
        raise UserError(
            "train.teacher must be a finetuned model with the labels of the training data. "
            f"Received: train.teacher={run.config.train.teacher}, {teacher.task}{labels}"
        )
    run.say(f"predictions of train.teacher for {counted(len(table), 'training row')}")
    found = teacher.probabilities(table.texts, table.text_pairs)
    if kind == "regression":
        return found.astype(np.float32)
    found = np.clip(found[:, [list(teacher.labels).index(name) for name in names]], 0, 1)
    found = np.clip(found, _SMALLEST[kind], None if kind == "single_label" else 1 - 1e-7)
    logits = np.log(found) if kind == "single_label" else np.log(found) - np.log1p(-found)
    return logits.astype(np.float32)
