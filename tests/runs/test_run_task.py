"""The family, the task and the engine of a run, and checks before any work."""

import shutil
import types

import pytest

from finetune.predict import show_attention
from keras_attn import finetune, pretrain
from keras_attn.defaults import declared, finetuning_defaults, pretraining_defaults
from keras_attn.errors import UserError
from keras_attn.registry import ENGINES, FAMILIES
from keras_attn.runs.run import Run
from keras_attn.saved_config import fields_to_keep
from keras_attn.workdir import Workdir
from tests.support.small_workdirs import GOLDEN


def test_a_config_without_the_fields_of_a_run_has_their_defaults(tmp_path):
    config = pretraining_defaults()
    with config.unlocked():
        del config["pretrained"], config["model"]
    config.train.steps = 0
    with pytest.raises(UserError, match="train.steps must be above 0"):
        pretrain(config, tmp_path / "run")


def test_a_family_without_a_model_for_the_task_is_an_error(tmp_path):
    config = finetuning_defaults()
    config.model.family, config.data.task = "gpt2", "reading_comprehension"
    with pytest.raises(UserError, match="The family gpt2 has no model for span_qa"):
        finetune(config, tmp_path / "run")
    config.model.family = "bort"
    with pytest.raises(UserError, match="Unknown family 'bort'.*Did you mean bert"):
        finetune(config, tmp_path / "run")


def test_a_resumed_run_keeps_its_family():
    chosen = fields_to_keep(
        {"model": {"family": "bert"}}, {"model": {"family": None}}, declared("classification")
    )
    assert chosen == {"model.family": "bert"}


def test_a_resumed_run_takes_only_the_fields_of_its_tokenizer_from_the_old_config():
    run = types.SimpleNamespace(
        resumed=True,
        family=FAMILIES["gpt2"],
        saved={"config": {"data": {"augment": "swap", "end_mark": False}}},
    )
    assert Run._tokenizer_settings(run) == {"end_mark": False}


def test_attention_requires_an_encoder_or_a_classifier(tmp_path):
    values = types.SimpleNamespace(
        workdir=str(GOLDEN / "language_models/gpt2"),
        text=["a"],
        text_pair=None,
        attention=str(tmp_path / "page.html"),
    )
    with pytest.raises(UserError, match="--attention requires an encoder or a classifier"):
        show_attention(values)
    assert not (tmp_path / "page.html").exists()


def test_a_resumed_run_keeps_its_engine(tmp_path, monkeypatch):
    monkeypatch.setitem(ENGINES._packages, "numpy", "tests.support.numpy_engine")
    # A workdir of version 0.1, which does not record its engine: it was TensorFlow.
    shutil.copytree(GOLDEN / "workdirs_0_1/bert", tmp_path / "run")
    before = (tmp_path / "run/config.json").read_text()
    with pytest.raises(UserError, match="cannot change --engine.*engine=numpy, was tensorflow"):
        pretrain(pretraining_defaults(), tmp_path / "run", engine="numpy")
    assert (tmp_path / "run/config.json").read_text() == before


def test_config_json_records_the_engine(tmp_path):
    workdir = Workdir(tmp_path)
    workdir.start("pretraining", {}, {}, {}, {}, engine="numpy")
    assert workdir.read_json("config.json")["engine"] == "numpy"
    workdir.start("pretraining", {}, {}, {}, {}, converted=True)  # no engine has trained it
    assert "engine" not in workdir.read_json("config.json")
