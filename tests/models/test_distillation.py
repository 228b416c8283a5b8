"""The error of a classifier with respect to a teacher, against formulas in NumPy."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.models import BertClassifier, BertEncoder
from tests.support.numpy_attention import normal

LABELS = {
    "single_label": np.array([0, 2, 1, 1]),
    "multilabel": np.array([[0, 1, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]]),
    "regression": np.array([0.5, -1.0, 2.0, 0.0], "float32"),
}


def _model(kind, **kwargs):
    classes = 1 if kind == "regression" else 3
    return BertClassifier(
        BertEncoder(12, 1, 8, 2, seed=0), classes, multilabel=kind == "multilabel", **kwargs
    )


def _error(model, labels, logits, **batch):
    batch = {"label": labels, "sample_weight": np.array([1.0, 0.5, 0.0, 2.0], "float32"), **batch}
    batch = {name: ops.convert_to_tensor(x) for name, x in batch.items()}
    errors = model.loss_errors({"logits": ops.convert_to_tensor(logits)}, batch)
    return float(errors["label"])


def _divergences(kind, logits, teacher, temperature, deviation):
    """`(N,)`, without the factor of the temperature."""
    if kind == "regression":
        return ((logits - teacher)[:, 0] / deviation) ** 2
    if kind == "multilabel":
        p, q = (1 / (1 + np.exp(-x / temperature)) for x in (teacher, logits))
        return np.mean(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)), axis=1)
    p, q = (
        np.exp(x / temperature) / np.exp(x / temperature).sum(axis=1, keepdims=True)
        for x in (teacher, logits)
    )
    return np.sum(p * np.log(p / q), axis=1)


@pytest.mark.parametrize("kind", LABELS)
def test_errors_are_divergences_from_the_teacher(kind):
    model = _model(kind, distillation=0.3, distillation_temperature=4.0, label_deviation=1.5)
    shape = (4, model.num_classes)
    logits, teacher = 2 * normal(*shape), 3 * normal(*shape, seed=1)
    alone = _error(model, LABELS[kind], logits)
    found = _error(model, LABELS[kind], logits, teacher_logits=teacher)
    exact = logits.astype("float64"), teacher.astype("float64")
    divergences = _divergences(kind, *exact, 4.0, 1.5) * (1 if kind == "regression" else 16)
    expected = 0.7 * alone + 0.3 * (divergences @ [1.0, 0.5, 0.0, 2.0])
    np.testing.assert_allclose(found, expected, 1e-5)


@pytest.mark.parametrize("kind", LABELS)
def test_the_teacher_itself_has_no_error(kind):
    model = _model(kind, distillation=1.0)
    logits = 20 * normal(4, model.num_classes)  # of certain predictions, too
    assert abs(_error(model, LABELS[kind], logits, teacher_logits=logits)) < 1e-4


def test_the_arguments_are_checked_and_saved():
    for wrong in ({"distillation": 1.5}, {"distillation": -0.1}, {"distillation_temperature": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be .*Received"):
            _model("single_label", **wrong)
    model = _model("single_label", distillation=0.25, distillation_temperature=3.0)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(model))
    assert (again.distillation, again.distillation_temperature) == (0.25, 3.0)
