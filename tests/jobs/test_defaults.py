"""Configs of finetuning: what scripts rely on is there and can be set."""

import pathlib
import runpy

import ml_collections
import pytest

from keras_attn.data import glue
from keras_attn.jobs.defaults import finetuning_defaults

CONFIGS = pathlib.Path(__file__).parents[2] / "configs"

FIELDS = {
    "data": "task train validation text text_pair label encoding on_bad_text lowercase vocab "
    "vocab_size length",
    "model": "size dropout",
    "train": "steps epochs minutes batch_size learning_rate warmup_fraction schedule optimizer "
    "weight_decay clip_norm seed accumulate precision jit",
    "eval": "every batch_size",
    "checkpoint": "every keep",
}


def _get(config, field):
    for name in field.split("."):
        config = config[name]
    return config


@pytest.mark.parametrize("group", FIELDS)
def test_the_fields_that_scripts_rely_on_exist(group):
    assert set(FIELDS[group].split()) <= set(finetuning_defaults()[group])
    assert {"pretrained", "workdir"} <= set(finetuning_defaults())


@pytest.mark.parametrize(
    ("field", "value", "wrong"),
    [
        ("train.steps", 100, "many"),
        ("train.epochs", 2.5, "many"),
        ("train.minutes", 1.5, "many"),
        ("data.text", "review", 3),
        ("pretrained", "runs/mini", 3),
    ],
)
def test_a_field_without_default_has_a_type(field, value, wrong):
    config = finetuning_defaults()
    assert _get(config, field) is None
    config.update_from_flattened_dict({field: value})
    assert _get(config, field) == value
    with pytest.raises(TypeError):
        config.update_from_flattened_dict({field: wrong})


@pytest.mark.parametrize("name", ["classify", *glue.TASKS])
def test_each_config_is_loaded_by_path_and_shows_its_command(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = runpy.run_path(str(CONFIGS / f"{name}.py"))
    config = module["get_config"]()
    assert isinstance(config, ml_collections.ConfigDict)
    assert config.data.task == (None if name == "classify" else name)
    assert f"python -m finetune --config=configs/{name}.py" in module["__doc__"]
    assert set(config.to_dict()) == set(finetuning_defaults().to_dict())


def test_two_configs_share_nothing():
    first, second = finetuning_defaults(), finetuning_defaults()
    first.train.seed = 7
    assert second.train.seed == 0
