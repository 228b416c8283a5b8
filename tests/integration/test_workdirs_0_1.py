"""Workdirs of version 0.1 load, predict and resume as in that version."""

import importlib
import json
import pathlib
import runpy
import shutil

import numpy as np
import pytest

import keras_attn
from keras_attn.training.checkpoints import Checkpoints
from keras_attn.training.variables import digest, read_values, variables_by_path

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
FOLDER = GOLDEN / "workdirs_0_1"
SCRIPT = runpy.run_path(str(GOLDEN / "make_workdirs.py"))
EXPECTED = json.loads((FOLDER / "expected.json").read_text())


def assert_close(found, expected):
    """Compares nested lists and dictionaries with a tolerance for floats."""
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            assert_close(found[key], value)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)
    else:
        assert found == expected


@pytest.mark.parametrize("name", [name for name in EXPECTED if name != "xlnet"])
def test_a_workdir_predicts_the_same(name):
    found = SCRIPT["predict"](FOLDER / name)
    assert_close(json.loads(json.dumps(found)), EXPECTED[name]["predictions"])


@pytest.mark.parametrize("name", EXPECTED)
def test_the_weights_of_a_workdir_are_those_of_its_run(name):
    values, _ = Checkpoints(str(FOLDER / name / "checkpoints")).read(SCRIPT["STEPS"])
    assert digest(values) == EXPECTED[name]["weights_sha256"]
    if name != "xlnet":  # must be finetuned to be loaded
        loaded = read_values(variables_by_path(keras_attn.load(str(FOLDER / name)).model))
        assert sorted(array.tobytes() for array in loaded.values()) == sorted(
            array.tobytes() for path, array in values.items() if path.startswith("model/")
        )


@pytest.mark.runs
@pytest.mark.parametrize("name", EXPECTED)
def test_a_workdir_resumes(name, tmp_path, monkeypatch):
    shutil.copytree(FOLDER, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    module, config_name, pretrained, fields = SCRIPT["RUNS"][name]
    config = importlib.import_module(f"keras_attn.configs.{config_name}").get_config()
    config.update_from_flattened_dict({**fields, "train.steps": SCRIPT["STEPS"] + SCRIPT["MORE"]})
    config.train.epochs = None  # the default of translation
    getattr(keras_attn, module)(config, name, pretrained)
    records = map(json.loads, pathlib.Path(name, "metrics.jsonl").read_text().splitlines())
    losses = [
        record["loss"]
        for record in records
        if record.get("step", 0) > SCRIPT["STEPS"] and "loss" in record
    ]
    np.testing.assert_allclose(losses, EXPECTED[name]["losses"], rtol=1e-3)
