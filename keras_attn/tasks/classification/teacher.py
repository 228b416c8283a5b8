"""Predictions of a teacher, which a smaller classifier learns."""

import numpy as np

from keras_attn.counts import counted
from keras_attn.errors import UserError

_SMALLEST = {"single_label": 1e-30, "multilabel": 1e-7}  # probability with a finite logit


def teacher_logits(run, teacher, table, names, kind):
    """Computes the logits of a teacher for the training rows.

    Args:
        run: `Run`.
        teacher: `Predictor`.
        table: `Table` of the training rows.
        names: Names of the classes; () for regression.
        kind: See `probabilities`.

    Returns:
        float32 `(N, C)`, for regression the predicted numbers `(N, 1)`.

    Raises:
        UserError: If the teacher predicts other labels.
    """
    _check(teacher, table.text_pairs is not None, names, kind)
    run.say(f"predicting {counted(len(table), 'training row')} with train.teacher")
    found = teacher.probabilities(table.texts, table.text_pairs)
    if kind != "regression":
        found = found[:, [list(teacher.labels).index(name) for name in names]]
        least = _SMALLEST[kind]
        found = np.clip(found, least, 1 if kind == "single_label" else 1 - least)
        found = np.log(found) - (0 if kind == "single_label" else np.log1p(-found))
    return found.astype(np.float32)


def _check(teacher, pairs, names, kind):
    same = teacher.kind == kind and {*teacher.labels} == {*names}
    if not same or teacher.pairs not in (None, pairs):
        raise UserError(
            "train.teacher must predict the labels of the training data. Received: "
            f"train.teacher={teacher.path} for "
            f"{_described(teacher.kind, teacher.labels, teacher.pairs)}; "
            f"training data: {_described(kind, names, pairs)}"
        )


def _described(kind, labels, pairs):
    texts = {None: "", True: ", pairs of texts", False: ", single texts"}[pairs]
    names = f" ({', '.join(labels)})" if labels else ""
    return f"{kind}{names}{texts}"
