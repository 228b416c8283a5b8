"""Predictions of a teacher, which a smaller classifier learns (knowledge distillation)."""

import numpy as np

from keras_attn.counts import counted
from keras_attn.errors import UserError

_SMALLEST = {"single_label": 1e-30, "multilabel": 1e-7}  # probability with a finite logit


def teacher_logits(run, table, names, kind):
    """Computes the logits of `train.teacher` for the training rows.

    Args:
        run: `Run`.
        table: `Table` of the training rows.
        names: Names of the classes; () for regression.
        kind: See `probabilities`.

    Returns:
        float32 `(N, C)`, for regression the predicted numbers `(N, 1)`, and the SHA-256 of the
        weights of the teacher; `(None, None)` without a teacher.

    Raises:
        UserError: If the teacher is not a classifier with the same labels, or fields of
            distillation are set without a teacher.
    """
    train = run.config.train
    if not train.teacher:
        for name in ("distillation", "distillation_temperature"):
            if train[name] is not None:
                raise UserError(
                    f"train.{name} requires train.teacher. Received: train.{name}={train[name]}"
                )
        return None, None
    teacher, sha256 = run.load(train.teacher, "train.teacher")
    pairs = table.text_pairs is not None
    _check(train.teacher, teacher, pairs, names, kind)
    run.say(f"predicting {counted(len(table), 'training row')} with train.teacher")
    found = teacher.probabilities(table.texts, table.text_pairs)
    if kind != "regression":
        found = found[:, [list(teacher.labels).index(name) for name in names]]
        least = _SMALLEST[kind]
        found = np.clip(found, least, 1 if kind == "single_label" else 1 - least)
        found = np.log(found) - (0 if kind == "single_label" else np.log1p(-found))
    return found.astype(np.float32), sha256


def _check(name, teacher, pairs, names, kind):
    own, taken = getattr(teacher, "kind", teacher.task), getattr(teacher, "pairs", None)
    labels = getattr(teacher, "labels", ())
    same = teacher.task == "classification" and own == kind and {*labels} == {*names}
    if not same or taken not in (None, pairs):
        raise UserError(
            "train.teacher must predict the labels of the training data. Received: "
            f"train.teacher={name} for {_described(own, labels, taken)}; "
            f"training data: {_described(kind, names, pairs)}"
        )


def _described(kind, labels, pairs):
    texts = {None: "", True: ", pairs of texts", False: ", single texts"}[pairs]
    names = f" ({', '.join(labels)})" if labels else ""
    return f"{kind}{names}{texts}"
