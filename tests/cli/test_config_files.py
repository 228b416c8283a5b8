"""Config files, their fields as flags, and their arguments."""

import importlib
import os
import pathlib
import sys

import pytest
from absl import flags
from ml_collections import ConfigDict

from keras_attn.cli import command_line, config_files
from keras_attn.defaults import (
    fields,
    finetuning_defaults,
    language_modeling_defaults,
    permutation_modeling_defaults,
    pretraining_defaults,
    translation_defaults,
)
from keras_attn.errors import UserError
from keras_attn.registry import TASKS
from keras_attn.tasks.classification import glue as glue_tasks
from tests.support.absl_flags import new_flags

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def parse(monkeypatch):
    """Function `(*arguments, defaults=None)` that returns the fields of the config after flags.

    `defaults` makes the config; if unset, --config names it.
    """

    def parsed(*arguments, defaults=None):
        monkeypatch.setattr(sys, "argv", ["command", *arguments])
        with monkeypatch.context() as patched, new_flags():
            if defaults:
                patched.setattr(command_line, "load_config", lambda *_: defaults())
            command_line.define_run_flags()
            command_line._parse("usage", "classify")
            config = flags.FLAGS.config.to_dict()
        return dict(fields(ConfigDict(config)))

    return parsed


VALUES = {int: 7, float: 1.5, str: "text", bool: True}


@pytest.mark.parametrize(
    "defaults",
    [
        pretraining_defaults,
        language_modeling_defaults,
        permutation_modeling_defaults,
        finetuning_defaults,
        translation_defaults,
    ],
)
def test_every_field_without_default_can_be_set_and_unset(defaults, parse):
    config = defaults()
    empty = {}
    for name, value in fields(config):
        if value is None and name != "model.family":  # which changes the other fields
            *parents, last = name.split(".")
            place = config
            for parent in parents:
                place = place[parent]
            empty[name] = VALUES[place.get_type(last)]
    assert len(empty) > 10
    setting = [f"--config.{name}={value}" for name, value in empty.items()]
    found = parse(*setting, defaults=defaults)
    assert {name: found[name] for name in empty} == empty
    unset = [
        f"--config.{name}={none}"
        for name, none in zip(empty, ["None", "none"] * len(empty), strict=False)
    ]
    found = parse(*setting, *unset, defaults=defaults)
    assert {found[name] for name in empty} == {None}


@pytest.mark.parametrize(
    ("arguments", "ends"),
    [
        ([], {"epochs": 100.0}),
        (["--config.train.steps=7"], {"steps": 7}),
        (["--config.train.minutes", "2"], {"minutes": 2.0}),
        (["--config.train.steps=none"], {"epochs": 100.0}),
        (["--config.train.steps", "none"], {"epochs": 100.0}),
        (["--config.train.steps=7", "--config.train.steps=none"], {"epochs": 100.0}),
        (["--config.train.epochs=none", "--config.train.epochs=3"], {"epochs": 3.0}),
        (["--config.train.steps=7", "--config.train.epochs=3"], {"steps": 7, "epochs": 3.0}),
    ],
    ids=str,
)
def test_an_end_of_the_run_takes_the_place_of_the_config_s(arguments, ends, parse):
    found = parse("--config=multi30k", *arguments)
    assert {
        name: found[f"train.{name}"]
        for name in ("steps", "epochs", "minutes")
        if found[f"train.{name}"] is not None
    } == ends


def test_none_in_place_of_a_text_is_a_text(parse):
    found = parse("--config.eval.tokenize=none", defaults=translation_defaults)
    assert found["eval.tokenize"] == "none"


def test_values_are_taken_with_a_blank_or_an_equals_sign_and_flags_may_be_negated(parse):
    found = parse(
        "--config.train.steps",
        "12",
        "--config.train.jit",
        "--config.data.train=a=b,c",
        "--config.train.learning_rate=3e-4",
        defaults=pretraining_defaults,
    )
    assert found["train.steps"] == 12 and found["train.jit"] is True
    assert found["data.train"] == "a=b,c" and found["train.learning_rate"] == 3e-4
    found = parse("--noconfig.data.whole_words", defaults=pretraining_defaults)
    assert found["data.whole_words"] is False


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("def get_config(:", "SyntaxError"),
        ("x = 3", "does not define it"),
        ("x = 3\nraise ValueError('so\\nlong')", "mine.py, line 2: ValueError: so"),
        ("def get_config(): return {}['a']", "mine.py, line 1: KeyError: 'a'"),
        ("import sys; sys.exit('no')", "mine.py, line 1: SystemExit: no"),
        ("\0", "SyntaxError"),
        (
            "from ml_collections import ConfigDict\n"
            "def get_config(): return ConfigDict({'data': {}})",
            "without workdir",
        ),
        ("def get_config(): return {'a': 1}", "ConfigDict"),
        ("import nothing_of_this_name", "nothing_of_this_name"),
    ],
)
def test_a_config_file_that_is_none_is_named(tmp_path, content, message):
    path = tmp_path / "mine.py"
    path.write_text(content)
    with pytest.raises(UserError, match=message) as error:
        config_files.load_config(path)
    assert "mine.py" in str(error.value)


@pytest.mark.parametrize(
    "name", ["glue:sst2", "glue.py:sst2", "configs/glue.py:sst2", "sst2", "configs/sst2.py"]
)
def test_a_task_of_glue_follows_a_colon_or_is_its_former_name(name, tmp_path, monkeypatch):
    for folder in (ROOT, tmp_path):
        monkeypatch.chdir(folder)
        path, argument = config_files.find_config(name)
        assert argument == "sst2" and os.path.samefile(path, ROOT / "configs" / "glue.py")
        assert config_files.load_config(path, argument).data.task == "sst2"


def test_the_former_names_of_glue_are_its_tasks_and_may_be_imported():
    glue = importlib.import_module("configs.glue")
    assert glue.GLUE_TASKS is glue_tasks.GLUE_TASKS
    assert TASKS.fields("classification").configs == {
        name: f"glue:{name}" for name in glue.GLUE_TASKS
    }
    for name in glue.GLUE_TASKS:
        old = importlib.import_module(f"configs.{name}")
        assert old is getattr(importlib.import_module("configs"), name)
        assert old.get_config() == glue.get_config(name)
    with pytest.raises(UserError, match="Received: task=cloa. Did you mean cola"):
        glue.get_config("cloa")


MINE = (
    "from keras_attn.defaults import finetuning_defaults\ndef get_config({}):\n"
    "    config = finetuning_defaults()\n    config.data.text = text\n    return config\n"
)


@pytest.mark.parametrize(
    ("parameters", "suffix", "text"),
    [
        ("text", ":review", "review"),
        ("text", ":a:b.py", "a:b.py"),
        ("text='title'", "", "title"),
        ("text='title'", ":review", "review"),
        ("text=None, *, other=1", "", None),
        ("text", ":", ""),
    ],
)
def test_a_config_file_takes_an_argument(parameters, suffix, text, tmp_path):
    (tmp_path / "mine.py").write_text(MINE.format(parameters))
    path, argument = config_files.find_config(f"{tmp_path}/mine.py{suffix}")
    assert config_files.load_config(path, argument).data.text == text


@pytest.mark.parametrize(
    ("parameters", "argument", "message"),
    [
        ("text", None, "Append :TEXT to --config"),
        ("*text, other", "a", r"mine\.py: TypeError.*other"),
        ("*, text=1", "a", "Remove :a from --config"),
        ("text, other", "a", r"mine\.py: TypeError.*other"),
    ],
)
def test_an_argument_that_does_not_fit_a_config_file_is_an_error(
    parameters, argument, message, tmp_path
):
    path = tmp_path / "mine.py"
    path.write_text(MINE.format(parameters))
    with pytest.raises(UserError, match=message):
        config_files.load_config(path, argument)
