"""Masked language models that learn the predictions of a teacher, against NumPy."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.models import BertEncoder, BertPretrainer
from tests.support.layer_checks import compiled
from tests.support.regression import BertRows

ROWS = BertRows().rows(0, 4)
ROWS["mask_weights"][1, 2] = 0.0


def make(seed, hidden_dim=8, **options):
    backbone = BertEncoder(
        50, 1, hidden_dim, 2, dropout=0.0, initializer_range=0.5, use_pooler=False, seed=seed
    )
    model = BertPretrainer(backbone, next_sentence=False, **options)
    model.build()
    return model


def taught(**options):
    student, teacher = make(0, **options), make(1, hidden_dim=12)
    student.set_teacher(teacher)
    return student, teacher


def log_softmax(x, temperature=1.0):
    x = x.astype("float64") / temperature
    x -= x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def logits_of(model):
    return ops.convert_to_numpy(model(ROWS)["mlm_logits"])


def error_of(model, training):
    return float(model.loss_errors(model(ROWS, training=training), ROWS)["mlm"])


def test_the_error_is_that_of_the_labels_and_the_divergence_from_the_teacher():
    student, teacher = taught(distillation=0.3, distillation_temperature=3.0)
    logits, wanted = logits_of(student), logits_of(teacher)
    labels = ROWS["mask_ids"][..., None]
    entropies = -np.take_along_axis(log_softmax(logits), labels, -1)[..., 0]
    own, wanted = log_softmax(logits, 3.0), log_softmax(wanted, 3.0)
    divergences = 9.0 * np.sum(np.exp(wanted) * (wanted - own), axis=-1)
    weights = ROWS["mask_weights"]
    expected = np.sum((0.7 * entropies + 0.3 * divergences) * weights)
    assert error_of(student, True) == pytest.approx(expected, rel=1e-4)
    assert error_of(student, False) == pytest.approx(np.sum(entropies * weights), rel=1e-4)
    tensors = {name: ops.convert_to_tensor(x) for name, x in ROWS.items()}
    call = compiled(lambda batch: student(batch, training=True)["mlm_errors"])
    errors = ops.convert_to_numpy(call(tensors))
    assert np.sum(errors * weights) == pytest.approx(expected, rel=1e-4)


def test_the_teacher_is_neither_a_part_of_the_model_nor_saved(tmp_path):
    student, teacher = taught(distillation=0.5)
    assert len(student.weights) == len(make(0).weights) and not teacher.trainable_variables
    assert [id(v) for v in student.constants] == [id(v) for v in teacher.variables]
    student.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert (again.distillation, again.distillation_temperature) == (0.5, 2.0)
    assert again.constants == [] and len(again.weights) == len(student.weights)
    assert error_of(again, True) == pytest.approx(error_of(student, False), rel=1e-5)


def test_the_arguments_and_the_vocabulary_are_checked():
    for wrong in ({"distillation": 1.5}, {"distillation_temperature": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be .*Received"):
            make(0, **wrong)
    backbone = BertEncoder(51, 1, 8, 2, use_pooler=False)
    other = BertPretrainer(backbone, next_sentence=False)
    with pytest.raises(ValueError, match="the same vocabulary. .* 51 tokens, not 50"):
        make(0).set_teacher(other)


@pytest.mark.thorough
def test_fit_learns_the_predictions_of_the_teacher():
    student, teacher = taught(distillation=1.0)
    fixed = [ops.convert_to_numpy(v) for v in teacher.variables]

    def distance():
        own, wanted = (np.exp(log_softmax(logits_of(model))) for model in (student, teacher))
        return np.abs(own - wanted)[ROWS["mask_weights"] > 0].mean()

    before = distance()
    student.compile(keras.optimizers.Adam(0.02))
    student.fit(ROWS, batch_size=4, epochs=60, verbose=0)
    assert distance() < 0.5 * before
    for variable, value in zip(teacher.variables, fixed, strict=True):
        np.testing.assert_array_equal(ops.convert_to_numpy(variable), value)
