"""The training loop: its end, its clock, its records and checkpoints."""

import os
import signal

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.data.batches import StreamBatches
from keras_attn.errors import UserError
from keras_attn.tasks.pretraining.masked_examples import PretrainingExamples
from keras_attn.training import trainer as trainer_module
from keras_attn.training import weight_mean
from keras_attn.training.engines.tensorflow.feed import distributed_batches
from keras_attn.training.trainer import Stopped, Trainer
from tests.support.fake_step import (
    Clock,
    FakeStep,
    checkpoints_of,
    kernel_of,
    records_of,
    trainer_of,
)
from tests.support.small_shards import make_tokenizer, mixed_shards, prepare


def run_with_stops(folder, stops, **options):
    """Returns the trainer of a run that SIGTERM stopped after these steps, and that then ended."""
    for stop in stops:
        step = FakeStep(at_step={stop: lambda: signal.raise_signal(signal.SIGTERM)})
        with pytest.raises(Stopped):
            trainer_of(folder, step, **options).run()
    trainer = trainer_of(folder, **options)
    trainer.run()
    return trainer


def test_the_trainer_runs_every_step_once_and_saves_and_evaluates_when_due(tmp_path, monkeypatch):
    monkeypatch.setattr(trainer_module, "SECONDS_PER_CALL", 1e9)
    evaluated = []
    trainer = trainer_of(
        tmp_path,
        total_steps=25,
        checkpoint_every=4,
        keep=3,
        evaluate_every=10,
        evaluate=lambda stop: evaluated.append(trainer.step) or {"accuracy": 0.5},
    )
    trainer.run()
    assert evaluated == [10, 20, 25]
    assert checkpoints_of(tmp_path) == [20, 24, 25]
    records = records_of(tmp_path)
    assert [record["step"] for record in records] == list(range(1, 26))
    assert [r["step"] for r in records if "validation_accuracy" in r] == [10, 20, 25]
    assert kernel_of(trainer) == sum(range(1, 26))


def test_the_remaining_time_does_not_count_compilation(tmp_path, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(trainer_module, "time", clock)
    step = FakeStep(2.0, at_step={1: lambda: clock.sleep(100.0)}, clock=clock)
    trainer, shown = trainer_of(tmp_path, step, total_steps=5), []
    monkeypatch.setattr(
        trainer.progress, "show", lambda record, left, final: shown.append((record["step"], left))
    )
    trainer.run()
    assert shown[0] == (1, None) and shown[-1][0] == 5
    assert all(left == 2.0 * (5 - number) for number, left in shown[1:])


def test_learning_rates_follow_the_schedule_over_all_steps(tmp_path):
    step = FakeStep()
    trainer_of(tmp_path, step, total_steps=9, peak=1.0, warmup_fraction=0.5).run()
    wanted = [0.2, 0.4, 0.6, 0.8, 1.0, 0.8, 0.6, 0.4, 0.2]
    np.testing.assert_allclose(list(step.rates.values()), wanted, rtol=1e-5)


def test_more_steps_resume_a_finished_run_which_is_otherwise_only_evaluated(tmp_path):
    trainer_of(tmp_path, total_steps=5).run()
    longer = trainer_of(tmp_path, total_steps=8)
    longer.run()
    assert kernel_of(longer) == sum(range(1, 9))
    again = trainer_of(tmp_path, total_steps=8, evaluate=lambda stop: {"accuracy": 0.25})
    again.run()
    assert again.step == 8 and again.validation == {"accuracy": 0.25}
    assert [record["step"] for record in records_of(tmp_path)] == list(range(1, 9))


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGTERM, "TERM"), (signal.SIGINT, "INT")])
def test_a_signal_saves_a_checkpoint_from_which_the_next_run_resumes(
    tmp_path, monkeypatch, number, kind
):
    monkeypatch.setattr(trainer_module, "SECONDS_PER_CALL", 0.0)
    handler = signal.getsignal(number)
    step = FakeStep(at_step={3: lambda: signal.raise_signal(number)})
    with pytest.raises(Stopped, match="stopped at step 3;") as stopped:
        trainer_of(tmp_path, step, total_steps=6).run()
    assert stopped.value.signal_number == number
    assert signal.getsignal(number) is handler
    assert checkpoints_of(tmp_path) == [3]
    trainer = trainer_of(tmp_path, total_steps=6)
    trainer.run()
    assert kernel_of(trainer) == sum(range(1, 7))
    assert [record["step"] for record in records_of(tmp_path)] == list(range(1, 7))


def test_the_mean_of_checkpoints_does_not_depend_on_interruptions(tmp_path, monkeypatch):
    monkeypatch.setattr(trainer_module, "SECONDS_PER_CALL", 0.0)
    evaluated = []
    options = {
        "total_steps": 18,
        "checkpoint_every": 5,
        "average": 3,
        "keep": 1,
        "evaluate": lambda stop: evaluated.append(1) or {"accuracy": 0.5},
    }
    whole = trainer_of(tmp_path / "whole", **options)
    whole.run()
    # After steps 10, 15 and 18 the weights are the sums of the previous steps.
    assert kernel_of(whole) == np.mean([55, 120, 171]).astype("float32")
    assert len(evaluated) == 2  # the weights of the last step, and the mean
    broken = run_with_stops(tmp_path / "broken", (7, 11, 16), **options)
    assert kernel_of(broken) == kernel_of(whole)
    again = trainer_of(tmp_path / "whole", **options)
    evaluated.clear()
    again.run()
    assert kernel_of(again) == kernel_of(whole) and len(evaluated) == 1
    longer = trainer_of(tmp_path / "whole", **{**options, "total_steps": 20, "average": 1})
    longer.run()
    assert kernel_of(longer) == sum(
        range(1, 21)
    )  # resumes from the last weights, not from the mean


def test_the_mean_over_the_end_of_a_run_does_not_depend_on_interruptions(tmp_path, monkeypatch):
    monkeypatch.setattr(weight_mean, "SAMPLES", 4)
    evaluated = []
    options = {
        "total_steps": 20,
        "average_fraction": 0.4,
        "evaluate": lambda stop: evaluated.append(1) or {"accuracy": 0.5},
    }
    whole = trainer_of(tmp_path / "whole", **options)
    whole.run()
    monkeypatch.setattr(trainer_module, "SECONDS_PER_CALL", 0.0)  # stops at once
    # Every second step of the last eight; the weights after step n are the sum of 1 to n.
    wanted = np.mean([n * (n + 1) / 2 for n in (14, 16, 18, 20)])
    assert kernel_of(whole) == pytest.approx(wanted)
    assert len(evaluated) == 2  # the weights of the last step, and the mean
    broken = run_with_stops(tmp_path / "broken", (3, 13, 15, 17), **options)
    assert kernel_of(broken) == kernel_of(whole)
    again = trainer_of(tmp_path / "whole", **options)
    again.run()
    assert kernel_of(again) == kernel_of(whole) and len(evaluated) == 5


def test_the_mean_over_the_end_of_a_run_that_the_clock_ends(tmp_path, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(trainer_module, "time", clock)
    monkeypatch.setattr(trainer_module, "SECONDS_PER_CALL", 0.0)
    trainer = trainer_of(tmp_path, FakeStep(6.0, clock=clock), minutes=1, average_fraction=0.35)
    trainer.run()
    wanted = np.mean([n * (n + 1) / 2 for n in (7, 8, 9, 10)])  # after 42, 48, 54 and 60 seconds
    assert (trainer.step, trainer.batches.expected_steps) == (10, 10)
    assert kernel_of(trainer) == pytest.approx(wanted)


@pytest.mark.parametrize(("every", "step"), [(2, 2), (0, 6)])
def test_a_signal_ends_an_evaluation_and_the_next_run_repeats_it(tmp_path, every, step):
    def interrupted(stop):
        assert not stop()
        signal.raise_signal(signal.SIGTERM)
        return None if stop() else {"accuracy": 1.0}

    def run(evaluate):
        trainer = trainer_of(tmp_path, total_steps=6, evaluate=evaluate, evaluate_every=every)
        trainer.run()
        return trainer.validation

    for _ in range(2):
        with pytest.raises(Stopped, match=f"step {step};"):
            run(interrupted)
        assert checkpoints_of(tmp_path) == [step]
    numbers = iter(range(1, 9))
    for _ in range(2):  # the second run has no pending evaluation
        last = run(lambda stop: {"accuracy": float(next(numbers))})
        records = records_of(tmp_path)
        assert [record["step"] for record in records] == list(range(1, 7))
        found = {r["step"]: r["validation_accuracy"] for r in records if "validation_accuracy" in r}
        assert found == ({2: 1.0, 4: 2.0, 6: 3.0} if every else {6: 1.0})
    assert last == {"accuracy": 4.0 if every else 2.0}


def test_a_loss_that_is_not_finite_names_the_step_and_leaves_the_last_checkpoint(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(trainer_module, "SECONDS_PER_CALL", 1e9)
    with pytest.raises(UserError, match="at step 9: loss=nan.*Last checkpoint: step 6") as error:
        trainer_of(tmp_path, FakeStep(bad_step=9), total_steps=20, checkpoint_every=6).run()
    assert "\n" not in str(error.value)
    assert checkpoints_of(tmp_path) == [6]
    assert [record["step"] for record in records_of(tmp_path)] == list(range(1, 9))


class StepWithBatches(FakeStep):
    """Step that reads its batches in a compiled function, like that of TensorFlow."""

    def feed(self, batches, first_step):
        return distributed_batches(
            batches, tf.distribute.OneDeviceStrategy("/cpu:0"), start=first_step
        )

    def run(self, feed, first, rates):
        iterator = feed.iterator
        take = tf.function(lambda: next(iterator))
        with feed.taking():
            for _ in rates:
                take()
        return super().run(feed, first, rates)


def test_a_shard_damaged_during_the_run_is_an_error_that_names_it(tmp_path):
    folder = prepare(tmp_path / "data", mixed_shards())
    examples = PretrainingExamples(folder, make_tokenizer(), length=16)
    os.truncate(tmp_path / "data" / "3.npz", 300)

    def run(source):
        batches = StreamBatches(source, 4)
        trainer = Trainer(
            StepWithBatches(), batches, str(tmp_path), total_steps=1000, checkpoint_every=1
        )
        trainer.run()

    # The second run need not count the pairs, and does not read the shard before training.
    for _ in range(2):
        again = PretrainingExamples(folder, make_tokenizer(), length=16)
        assert again.num_examples == examples.num_examples
        with pytest.raises(UserError, match=r"3\.npz is not the shard in index.json"):
            run(again)
    steps = [record["step"] for record in records_of(tmp_path)]
    assert steps == list(range(1, checkpoints_of(tmp_path)[-1] + 1)) != []


def test_a_run_with_a_truncated_newest_checkpoint_has_the_same_end(tmp_path):
    trainer_of(tmp_path, total_steps=8, checkpoint_every=3).run()
    path = tmp_path / "checkpoints" / "step-8.npz"
    os.truncate(path, 100)
    trainer = trainer_of(tmp_path, total_steps=8)
    trainer.run()
    assert kernel_of(trainer) == sum(range(1, 9))
    assert [record["step"] for record in records_of(tmp_path)] == list(range(1, 9))


def test_the_schedule_follows_the_clock_if_minutes_end_the_run(tmp_path, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(trainer_module, "SECONDS_PER_CALL", 0.05)
    monkeypatch.setattr(trainer_module, "time", clock)
    options = {"minutes": 1.0 / 60, "peak": 1.0, "warmup_fraction": 0.0}
    stop = {step: (lambda: signal.raise_signal(signal.SIGINT)) for step in (40,)}
    first = FakeStep(0.01, at_step=stop, clock=clock)
    with pytest.raises(Stopped):
        trainer_of(tmp_path, first, **options).run()
    clock.sleep(0.5)  # time between runs does not count
    second = FakeStep(0.01, clock=clock)
    trainer = trainer_of(tmp_path, second, **options)
    trainer.run()
    assert 1.0 <= trainer.seconds < 1.1
    assert clock.now >= 101.5
    rates = list({**first.rates, **second.rates}.values())
    seconds = [record["seconds"] for record in records_of(tmp_path)]
    np.testing.assert_allclose(rates, 1.0 - np.array(seconds), atol=0.1)
    assert rates[-1] < 0.1 and len(rates) == trainer.step
    assert all(b <= a + 0.03 for a, b in zip(rates[:-1], rates[1:], strict=True))
