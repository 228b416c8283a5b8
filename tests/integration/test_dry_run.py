"""A dry run estimates the cost of a run, and leaves no files."""

import tempfile
from types import SimpleNamespace

import numpy as np
import pytest

from keras_attn import load, pretrain
from keras_attn.defaults import pretraining_defaults
from keras_attn.runs import dry_run
from keras_attn.training.engines.tensorflow.engine import TensorFlowEngine
from tests.support.numpy_engine.engine import NumPyEngine
from tests.support.started_commands import TINY, config_flags, run

pytestmark = pytest.mark.runs


def _config(texts, **fields):
    config = pretraining_defaults()
    config.update_from_flattened_dict(
        {**TINY, "data.train": str(texts / "train.txt"), "data.validation": None, **fields}
    )
    return config


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(dry_run, "MEASURED_SECONDS", 0.5)


@pytest.mark.parametrize("end", [{"train.steps": 7}, {"train.steps": None, "train.minutes": 0.5}])
def test_estimates_equal_the_counts_of_the_run(texts, tmp_path, end, capsys):
    config = _config(texts, **end)
    found = pretrain(config, workdir=str(tmp_path / "run"), dry_run=True)
    assert not (tmp_path / "run").exists()
    if config.train.steps:
        taken = pretrain(config, workdir=str(tmp_path / "run"))
        assert found["steps"] == taken["steps"] == 7
        assert found["parameters"] == load(tmp_path / "run").model.count_params()
    else:
        assert found["seconds"] == pytest.approx(30, rel=0.1)
    assert found["seconds"] == pytest.approx(found["steps"] * found["seconds_per_step"])
    assert (
        found["peak_bytes"]
        > found["state_bytes"]
        == pytest.approx(16 * found["parameters"], rel=1e-3)
    )  # weight, gradient and two moments in float32
    rows = config.train.batch_size * found["steps"]
    assert 0.5 < found["tokens"] / (rows * config.data.length) <= 1
    assert "steps" in capsys.readouterr().out


@pytest.mark.slow
def test_a_dry_run_requires_no_workdir_and_cleans_up_after_errors(
    texts, tmp_path, labelled, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert pretrain(_config(texts), dry_run=True)["steps"] == 20
    run("finetune", "--dry_run", *labelled, TMPDIR=str(tmp_path))
    with pytest.raises(RuntimeError, match="of the model"):
        monkeypatch.setattr(TensorFlowEngine, "make_optimizer", _fails)
        pretrain(_config(texts), workdir=str(tmp_path / "run"), dry_run=True)
    assert not list(tmp_path.iterdir())


def _fails(*_, **__):
    raise RuntimeError("out of memory in the making of the model")


def test_a_dry_run_does_not_change_an_existing_run(pretrained, corpus):
    def files():
        return {
            path: path.read_bytes()
            for path in pretrained.rglob("*")
            if path.is_file() and path.name != "lock"
        }

    before = files()
    out, _ = run(
        "pretrain",
        f"--workdir={pretrained}",
        "--dry_run",
        *corpus,
        *config_flags(**{"model.dropout": 0.0}),
    )
    assert "time: " in out and before and files() == before


def test_compilation_for_other_shapes_is_not_measured(monkeypatch):
    """Step of 10 ms, with 3 s of compilation for every new length."""
    now, known = 0.0, set()
    monkeypatch.setattr(dry_run.time, "monotonic", lambda: now)

    class Batches:
        one_length, one_count, batch_size, num_batches = False, True, 1, 10

        def batch(self, index, first, last):
            return {"token_ids": np.zeros((last - first, 8 * (1 + index % 4)), np.int32)}

    def run_steps(feed, first, rates):
        nonlocal now
        for number, _ in enumerate(rates, first):
            length = feed.batch(number, 0, 1)["token_ids"].shape[-1]
            now += 0.01 if length in known else 3.01
            known.add(length)
        return [{"tokens": 1.0} for _ in rates]

    model = SimpleNamespace(trainable_variables=[], count_params=lambda: 0)
    step = SimpleNamespace(
        engine=NumPyEngine(),
        feed=lambda batches, first: batches,
        run=run_steps,
        model=model,
        optimizer=SimpleNamespace(variables=[]),
    )
    found = dry_run.measure(step, Batches(), 1000, None, print)
    assert len(known) == 4
    assert found["seconds"] == pytest.approx(10.0)
