"""The teacher of a run, read for any task."""

import types

import ml_collections
import pytest

from keras_attn.errors import UserError
from keras_attn.tasks.teacher import distillation, read_teacher, teacher_hash

TRAINED = types.SimpleNamespace(task="tagging", sha256="abc")


def make_run(task="tagging", **train):
    fields = {"teacher": "runs/teacher", "distillation": None, "distillation_temperature": None}
    return types.SimpleNamespace(
        task=types.SimpleNamespace(name=task),
        config=types.SimpleNamespace(train=ml_collections.ConfigDict({**fields, **train})),
        read=lambda source, name: TRAINED,
    )


def test_the_teacher_is_a_model_for_the_task():
    assert read_teacher(make_run()) is TRAINED
    assert teacher_hash(TRAINED) == {"teacher": "abc"}
    message = "must be a model for embedding. .*=runs/teacher, a model for tagging"
    with pytest.raises(UserError, match=message):
        read_teacher(make_run("embedding"))


@pytest.mark.parametrize("name", ["distillation", "distillation_temperature"])
def test_fields_of_distillation_require_a_teacher(name):
    with pytest.raises(UserError, match=f"train.{name} requires train.teacher. .*=0.9"):
        read_teacher(make_run(teacher=None, **{name: 0.9}))
    assert read_teacher(make_run(teacher=None)) is None and teacher_hash(None) == {}


def test_unset_fields_have_defaults():
    train = make_run(distillation=0.0).config.train
    assert distillation(train) == {"distillation": 0.0, "distillation_temperature": 2.0}
    train.distillation_temperature, train.distillation = 4.0, None
    assert distillation(train) == {"distillation": 0.5, "distillation_temperature": 4.0}
