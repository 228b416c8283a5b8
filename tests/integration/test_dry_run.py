"""A dry run tells what a run takes, and leaves no trace."""

import pytest
from started_commands import TINY, config_flags, run

from keras_attn import pretrain
from keras_attn.defaults import pretraining_defaults


def _config(texts, **fields):
    config = pretraining_defaults()
    config.update_from_flattened_dict({
        **TINY, "data.train": str(texts / "train.txt"), "data.validation": None, **fields})
    return config


@pytest.mark.parametrize("end", [{"train.steps": 7}, {"train.steps": None, "train.minutes": 0.5}])
def test_it_counts_what_the_run_then_takes(texts, tmp_path, end, capsys):
    config = _config(texts, **end)
    found = pretrain(config, workdir=str(tmp_path / "run"), dry_run=True)
    assert not (tmp_path / "run").exists()
    if config.train.steps:
        assert found["steps"] == 7
    else:
        assert found["seconds"] == pytest.approx(30, rel=0.1)
    assert found["seconds"] == pytest.approx(found["steps"] * found["seconds_per_step"])
    assert found["peak_bytes"] > found["state_bytes"] == pytest.approx(
        16 * found["parameters"], rel=1e-3)  # weight, gradient and two moments in float32
    rows = config.train.batch_size * found["steps"]
    assert 0.5 < found["tokens"] / (rows * config.data.length) <= 1
    assert "steps" in capsys.readouterr().out


def test_it_changes_nothing_of_a_run_that_is_there(pretrained, corpus):
    def files():
        return {path: path.read_bytes() for path in pretrained.rglob("*")
                if path.is_file() and path.name != "lock"}

    before = files()
    out, _ = run("pretrain", f"--workdir={pretrained}", "--dry_run", *corpus,
                 *config_flags(**{"model.dropout": 0.0}))
    assert "time: " in out and before and files() == before
