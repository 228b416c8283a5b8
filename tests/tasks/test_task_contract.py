"""Declarations of a task, and the shared code that uses them."""

import dataclasses
import types

import pytest

import tests.support.toys  # noqa: F401
from keras_attn import convert
from keras_attn.convert.heads import with_heads
from keras_attn.defaults import default_config
from keras_attn.errors import UserError
from keras_attn.families.architecture_choice import choose_architecture
from keras_attn.families.gpt2.family import GPT2Family
from keras_attn.registry import FAMILIES, TASKS
from keras_attn.runs.step_memory import step_size
from keras_attn.tasks.finetuning.choices import choose_best
from tests.support.small_workdirs import GOLDEN
from tests.support.toy_task import fields as toy_fields

SHAPE = {"num_layers": 2, "hidden_dim": 32, "num_heads": 4, "vocabulary_size": 500}


def _help(task):
    return TASKS.fields(task).config(FAMILIES.fields("bert"))["eval"]["metric"].help


@pytest.mark.parametrize(
    "task", ["classification", "span_qa", "translation", "embedding", "tagging", "counting"]
)
def test_the_help_of_the_metric_lists_all_that_the_task_declares(task):
    listed = _help(task).split(": ")[1].split(";")[0].split(", ")
    assert {*TASKS.fields(task).metrics, "loss"} <= {*listed}
    assert len(listed) == len({*listed})


@pytest.mark.parametrize(
    ("task", "metric", "lower"),
    [
        ("classification", "accuracy", False),
        ("classification", "mean_squared_error", True),
        ("span_qa", "f1", False),
        ("translation", "loss", True),
        ("counting", "mean_error", True),
    ],
)
def test_the_task_declares_whether_a_lower_metric_is_better(task, metric, lower):
    run = types.SimpleNamespace(
        config=default_config(task), compared=False, task=types.SimpleNamespace(name=task)
    )
    run.config.eval.metric = metric
    best = choose_best(run, TASKS.fields(task).metrics, validation=[1])
    best.add(1, {metric: 0.5})
    assert best.add(2, {metric: 0.4}) == lower


@pytest.mark.parametrize("scratch", [False, True])
@pytest.mark.parametrize("packs", [False, True])
def test_packing_and_finetuning_from_scratch_are_independent(scratch, packs):
    family = GPT2Family()
    family.finetunes_from_scratch, family.packs = scratch, packs
    config = default_config("classification", "gpt2")
    config.data.update(pack=4, length=16)
    run = types.SimpleNamespace(
        config=config, task=TASKS["classification"], resumed=False, pretrained=None
    )
    if packs and scratch:
        assert choose_architecture(run, family, False)["max_length"] == 16
        return
    with pytest.raises(UserError, match="requires --pretrained" if packs else "data.pack must be"):
        choose_architecture(run, family, False)


def test_the_memory_of_a_head_with_many_classes_is_counted():
    task, family = TASKS["classification"], FAMILIES["bert"]
    architecture = {**SHAPE, "max_length": 64, "use_pooler": False}
    config = default_config("classification")
    config.data.length = 64
    for classes in (2, 100_000):
        heads = {"num_classes": classes, "pooling": "mean"}
        model = family.build("classification", architecture, heads)
        model.build()
        size = step_size(task, family, architecture, config, heads)
        assert size.parameters == pytest.approx(model.count_params(), rel=0.06)


def test_two_tasks_cannot_declare_the_same_heads_to_convert(monkeypatch):
    declared = dataclasses.replace(toy_fields.FIELDS, convert_heads={"encoder": {}})
    monkeypatch.setattr(toy_fields, "FIELDS", declared)
    with pytest.raises(UserError, match="backbone and counting declare the same --task=encoder"):
        convert.head_choices()


def test_other_heads_drop_the_files_of_the_old_task_and_the_same_heads_keep_them():
    classifier = convert.read(GOLDEN / "hugging_face/classifier")
    assert classifier.files["labels"]
    encoder, _ = with_heads(classifier, "encoder", False)
    assert encoder.task == "backbone" and encoder.files == {}
    encoder.files["note"] = "kept"
    assert with_heads(encoder, "encoder", False)[0].files == {"note": "kept"}
