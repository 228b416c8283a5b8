"""The family, the task and the engine of a run, and checks before any work."""

import shutil
import types

import pytest

from finetune.predict import show_attention
from keras_attn import finetune, pretrain
from keras_attn.declarations import EngineFields
from keras_attn.defaults import (
    declared,
    finetuning_defaults,
    pretraining_defaults,
    translation_defaults,
)
from keras_attn.errors import UserError
from keras_attn.registry import ENGINES, FAMILIES
from keras_attn.runs.run import Run, _fix_fields
from keras_attn.saved_config import fields_of_another_engine, fields_to_keep
from keras_attn.workdir import Workdir
from tests.support.numpy_engine import fields as numpy_fields
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
    with pytest.raises(UserError, match="--attention requires an encoder, a classifier"):
        show_attention(values)
    assert not (tmp_path / "page.html").exists()


def test_another_engine_keeps_the_values_that_engines_fix(monkeypatch):
    declaration = EngineFields(backend="tensorflow", fixed={"train.jit": True, "train.unknown": 1})
    monkeypatch.setattr(numpy_fields, "FIELDS", declaration)
    monkeypatch.setitem(ENGINES._packages, "numpy", "tests.support.numpy_engine")
    known = declared("masked_lm")
    old, new = ({"train": {"jit": jit, "clip_norm": 1.0}} for jit in (False, True))
    for engines in (("tensorflow", "numpy"), ("numpy", "tensorflow"), ("removed", "numpy")):
        fields = fields_of_another_engine(known, *engines)
        assert fields.keys() == known.keys()
        assert fields_to_keep(old, new, fields)["train.jit"] is False
    assert "train.jit" not in fields_to_keep(old, new, known)


def test_an_engine_reports_the_fields_that_it_sets(monkeypatch):
    fixed = {"train.clip_norm": 2.0, "train.jit": True, "train.layer_decay": 0.5}
    declaration = EngineFields(backend="tensorflow", fixed=fixed)
    monkeypatch.setattr(numpy_fields, "FIELDS", declaration)
    monkeypatch.setitem(ENGINES._packages, "numpy", "tests.support.numpy_engine")
    config = pretraining_defaults()  # without layer_decay
    config.train.clip_norm = 0.5
    lines = list(_fix_fields(config, declared("masked_lm"), "numpy"))
    assert lines == ["warning: the engine numpy uses train.clip_norm=2.0, not train.clip_norm=0.5"]
    assert (config.train.clip_norm, config.train.jit) == (2.0, True)


def test_fields_of_any_depth_can_be_set():
    config = translation_defaults()
    run = types.SimpleNamespace(config=config, resolved=config.to_dict())
    for path in ("data.train.source", "train.steps", "pretrained"):
        Run.set_field(run, path, "text" if path != "train.steps" else 3)
    for found in (run.config, run.resolved):
        assert found["data"]["train"]["source"] == found["pretrained"] == "text"
        assert found["train"]["steps"] == 3


def test_released_weights_are_not_read_again():
    run = Run.__new__(Run)
    run._released, run._pretrained = False, "weights"
    assert run.pretrained == "weights"
    run.release_pretrained()
    with pytest.raises(RuntimeError, match="used after release_pretrained"):
        run.pretrained  # noqa: B018


def test_the_engine_of_runs_without_a_record_is_not_the_default(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("keras_attn.registry.DEFAULT_ENGINE", "numpy")
    monkeypatch.setitem(ENGINES._packages, "numpy", "tests.support.numpy_engine")
    # A workdir of version 0.1, which does not record its engine: it was TensorFlow.
    shutil.copytree(GOLDEN / "workdirs_0_1/bert", tmp_path / "run")
    before = (tmp_path / "run/config.json").read_text()
    with pytest.raises(UserError):
        pretrain(pretraining_defaults(), tmp_path / "run", engine="numpy")
    assert "resuming with engine=numpy, was tensorflow" in capsys.readouterr().out
    assert (tmp_path / "run/config.json").read_text() == before


def test_a_resumed_run_checks_the_batch_size_for_its_devices():
    config = pretraining_defaults()
    config.train.update(batch_size=16, accumulate=8)
    run = Run.__new__(Run)
    run.config, run.resolved = config, config.to_dict()
    run.engine = types.SimpleNamespace(num_replicas=4, broadcast=lambda values: values)
    run.task = run.family = run.say = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("keras_attn.runs.run.choose_sizes", lambda *arguments: (8, 16))
        with pytest.raises(UserError, match="train.accumulate=8, replicas=4"):
            run.fit_memory({})


def test_config_json_records_the_engine(tmp_path):
    workdir = Workdir(tmp_path)
    workdir.start("pretraining", {}, {}, {}, {}, engine="numpy")
    assert workdir.read_json("config.json")["engine"] == "numpy"
    workdir.start("pretraining", {}, {}, {}, {}, converted=True)  # no engine has trained it
    assert "engine" not in workdir.read_json("config.json")
