"""Selection of the final weights by the best evaluation, and early stopping."""

import math

import pytest

from keras_attn.errors import UserError
from keras_attn.training import trainer as trainer_module
from keras_attn.training.best import Best
from keras_attn.training.checkpoints import Checkpoints
from tests.support.fake_step import (
    FakeStep,
    checkpoints_of,
    kernel_of,
    records_of,
    trainer_of,
)
from tests.support.quick import quick


def _run(folder, values, total=10, patience=None, metric="accuracy", step=None, **options):
    """Trains `total` steps; the evaluation after every second step has the next value."""
    values = dict(zip(range(2, 2 * len(values) + 1, 2), values, strict=True))
    trainer = trainer_of(
        folder,
        step,
        total_steps=total,
        evaluate_every=2,
        evaluate=lambda stop: {metric: values[trainer.step]},
        best=Best(metric, patience, lower_is_better=metric != "accuracy"),
        **options,
    )
    trainer.run()
    return trainer


@pytest.mark.parametrize(
    ("metric", "values", "best"),
    [
        ("accuracy", [0.1, 0.7, 0.3, 0.7, 0.2], 4),
        ("accuracy", [0.1, 0.2, 0.3, 0.4, 0.5], 10),
        ("accuracy", [0.5, 0.5, 0.5, 0.5, 0.5], 2),
        ("loss", [0.5, 0.4, 0.2, 0.3, 0.6], 6),
        ("mean_squared_error", [0.5, 0.6, 0.7, 0.8, 0.9], 2),
        ("accuracy", [0.3, math.nan, 0.2, 0.1, 0.0], 2),
        ("loss", [math.nan, 0.9, 0.2, 0.1, math.nan], 8),
    ],
)
def test_a_run_ends_with_the_weights_of_the_best_evaluation(tmp_path, metric, values, best):
    trainer = _run(tmp_path, values, metric=metric)
    assert kernel_of(trainer) == sum(range(1, best + 1))
    assert trainer.validation == {metric: values[best // 2 - 1]}
    assert trainer.step == 10 == records_of(tmp_path)[-1]["step"]


def test_a_run_ends_when_its_patience_is_exhausted(tmp_path):
    trainer = _run(tmp_path, [0.1, 0.5, 0.4, 0.3, 0.9], patience=2)
    assert trainer.step == 8, "two evaluations after the best, that of step 4"
    assert kernel_of(trainer) == sum(range(1, 5))


def test_the_best_checkpoint_is_never_removed(tmp_path):
    _run(tmp_path, [0.1, 0.9, 0.1, 0.2, 0.3], checkpoint_every=1, keep=2)
    assert checkpoints_of(tmp_path) == [4, 9, 10]


@pytest.mark.parametrize(
    "crash, every",
    quick(
        [(crash, every) for crash in range(1, 10) for every in (None, 1, 3)],
        *((crash, (None, 1, 3)[crash % 3]) for crash in range(1, 10)),
    ),
)
def test_a_run_resumed_at_any_step_has_the_same_end(tmp_path, monkeypatch, crash, every):
    monkeypatch.setattr(trainer_module, "SECONDS_PER_CALL", 0.0)
    values = [0.2, 0.6, 0.3, 0.5, 0.1]
    options = {"patience": 4, "checkpoint_every": every}
    whole = _run(tmp_path / "whole", values, **options)

    def fail():
        raise OSError("power")

    with pytest.raises(OSError, match="power"):
        _run(tmp_path / "broken", values, step=FakeStep(at_step={crash: fail}), **options)
    again = _run(tmp_path / "broken", values, **options)
    assert kernel_of(again) == kernel_of(whole) == sum(range(1, 5))
    assert again.validation == whole.validation == {"accuracy": 0.6}


def test_a_finished_run_evaluates_the_best_weights_again(tmp_path):
    _run(tmp_path, [0.2, 0.6, 0.3], total=6)
    values = []
    trainer = trainer_of(
        tmp_path,
        total_steps=6,
        best=Best("accuracy"),
        evaluate=lambda stop: values.append(kernel_of(trainer)) or {"accuracy": 0.25},
    )
    trainer.run()
    assert values == [kernel_of(trainer)] == [sum(range(1, 5))]
    assert trainer.validation == {"accuracy": 0.25}


@pytest.mark.parametrize("name", ["save", "_write_index"])
@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_run_killed_while_writing_a_checkpoint_has_the_same_end(
    tmp_path, monkeypatch, name, call
):
    monkeypatch.setattr(trainer_module, "SECONDS_PER_CALL", 0.0)
    whole, calls = getattr(Checkpoints, name), []

    def killed(*arguments, **options):
        calls.append(name)
        if len(calls) == call:
            raise OSError("power")
        return whole(*arguments, **options)

    values = [0.2, 0.6, 0.3, 0.7, 0.1]
    monkeypatch.setattr(Checkpoints, name, killed)
    with pytest.raises(OSError, match="power"):
        _run(tmp_path, values)
    monkeypatch.setattr(Checkpoints, name, whole)
    trainer = _run(tmp_path, values)
    assert kernel_of(trainer) == sum(range(1, 9)) and trainer.validation == {"accuracy": 0.7}


def test_a_damaged_best_checkpoint_is_an_error(tmp_path):
    _run(tmp_path, [0.2, 0.6, 0.3, 0.1, 0.1])
    (tmp_path / "checkpoints/step-4.npz").write_bytes(b"nothing")
    with pytest.raises(UserError, match="step 4"):
        _run(tmp_path, [0.2, 0.6, 0.3, 0.1, 0.1])


def test_a_command_warns_once_about_each_damaged_file(tmp_path, capsys):
    values = [0.2, 0.6, 0.3, 0.1, 0.1]
    _run(tmp_path, values)
    folder = tmp_path / "checkpoints"
    (folder / "step-10.npz").write_bytes(b"nothing")
    (folder / "index.json").write_text("{")
    capsys.readouterr()
    for _ in range(2):  # as in a command with several readers
        assert Checkpoints(str(folder)).steps() == [4, 10]
        assert Checkpoints(str(folder)).read_best()[1]["step"] == 4
    _run(tmp_path, values)  # resumes from step 4
    lines = capsys.readouterr().err.splitlines()
    for name in ("index.json", "step-10.npz"):
        assert len([line for line in lines if name in line]) == 1, lines
