"""Killed and stopped runs are bitwise identical to uninterrupted ones."""

import os
import random
import signal

import pytest

from tests.support.started_commands import (
    config_flags,
    finish,
    results,
    run,
    start,
    steps_recorded,
    wait_for_step,
)

# An epoch has about 20 steps, so the runs have several epochs.
OPTIONS = {"checkpoint.every": 5, "model.dropout": 0.1}


def _flags(corpus, workdir, **changed):
    return ["--workdir", workdir, *corpus, *config_flags(**{**OPTIONS, **changed})]


def _kill_after(step, workdir, flags):
    process = start("pretrain", *flags)
    wait_for_step(workdir, step, [process])
    process.kill()
    process.communicate()


def _assert_equal(workdir, unbroken, steps):
    assert results(workdir)["weights_sha256"] == results(unbroken)["weights_sha256"]
    assert steps_recorded(workdir) == list(range(1, steps + 1))
    for name in ("mlm_loss", "nsp_accuracy"):
        assert results(workdir)[name] == results(unbroken)[name]


@pytest.mark.slow
def test_a_killed_run_with_a_truncated_checkpoint_ends_like_an_uninterrupted_one(corpus, tmp_path):
    broken, unbroken, steps = tmp_path / "broken", tmp_path / "unbroken", 32
    run("pretrain", *_flags(corpus, unbroken, **{"train.steps": steps}))
    flags = _flags(corpus, broken, **{"train.steps": steps})
    _kill_after(14, broken, flags)
    newest = max((broken / "checkpoints").glob("step-*.npz"), key=lambda p: int(p.stem[5:]))
    os.truncate(newest, newest.stat().st_size // 2)
    _, err = run("pretrain", *flags)
    assert f"{newest.name} is damaged and skipped" in err
    _assert_equal(broken, unbroken, steps)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed", [{"data.pack": 8}, {"train.precision": "mixed_float16", "train.accumulate": 2}]
)
def test_packed_and_scaled_runs_resume_bitwise_identically(corpus, tmp_path, changed):
    broken, unbroken, changed = (
        tmp_path / "broken",
        tmp_path / "unbroken",
        {**changed, "train.steps": 400},
    )
    run("pretrain", *_flags(corpus, unbroken, **changed))
    flags = _flags(corpus, broken, **changed)
    _kill_after(14, broken, flags)
    assert not (broken / "results.json").exists()
    run("pretrain", *flags)
    _assert_equal(broken, unbroken, 400)


@pytest.mark.slow
def test_ten_kills_at_random_times_leave_the_result_bitwise_identical(corpus, tmp_path):
    steps, draw = 4000, random.Random(0)
    changed = {"train.steps": steps, "train.jit": True, "checkpoint.every": 50}
    broken, unbroken = tmp_path / "broken", tmp_path / "unbroken"
    run("pretrain", *_flags(corpus, unbroken, **changed))
    flags, kills = _flags(corpus, broken, **changed), 0
    steps_to_kill = sorted(draw.sample(range(1, steps - 300), 10))
    for step in steps_to_kill:
        _kill_after(step, broken, flags)
        kills += 1
    run("pretrain", *flags)
    assert kills == 10
    _assert_equal(broken, unbroken, steps)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_a_checkpoint_and_the_same_command_resumes(corpus, tmp_path, number, status):
    steps = 1500
    broken, unbroken = tmp_path / "broken", tmp_path / "unbroken"
    run("pretrain", *_flags(corpus, unbroken, **{"train.steps": steps}))
    flags = _flags(corpus, broken, **{"train.steps": steps, "checkpoint.every": None})
    for step in (1, 300):
        process = start("pretrain", *flags)
        wait_for_step(broken, step, [process])
        process.send_signal(number)
        statuses, (err,) = finish([process], seconds=60)
        assert statuses == [status], err
        assert err.splitlines()[-1].startswith("stopped at step ") and "Traceback" not in err
    run("pretrain", *flags)
    _assert_equal(broken, unbroken, steps)


@pytest.mark.slow
def test_a_kill_while_the_data_are_prepared_changes_nothing(corpus, pretrained, tmp_path):
    flags = [f"--workdir={tmp_path / 'run'}", *corpus, *config_flags(**{"model.dropout": 0.0})]
    for name in ("vocab.txt", "data/train/plan.json", "data/validation", "config.json"):
        process = start("pretrain", *flags)
        while not (tmp_path / "run" / name).exists() and process.poll() is None:
            pass
        process.kill()
        process.communicate()
    run("pretrain", *flags)
    assert results(tmp_path / "run")["weights_sha256"] == results(pretrained)["weights_sha256"]
