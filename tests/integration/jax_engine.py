"""Runs of the JAX engine continue those of TensorFlow, on any number of devices and processes.

Run by tests/backends, on JAX.
"""

import random
import shutil
import socket

import numpy as np
import pytest

from tests.support.started_commands import (
    config_flags,
    finish,
    losses,
    results,
    run,
    start,
    steps_recorded,
    wait_for_step,
    weights,
    write_corpus,
)

pytestmark = pytest.mark.slow


def _devices(count):
    return {"XLA_FLAGS": f"--xla_force_host_platform_device_count={count}"}


def _start_processes(command, *flags, **variables):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    return [
        start(
            command,
            "--engine=jax",
            f"--coordinator={address}",
            "--processes=2",
            f"--process={number}",
            *flags,
            **variables,
        )
        for number in range(2)
    ]


@pytest.fixture(scope="module")
def tasks(tmp_path_factory, corpus, pretrained, labelled):
    """Commands and flags of small runs by name."""
    folder = tmp_path_factory.mktemp("tasks")
    draw = random.Random(0)
    words = ["Ann", "Bob", "sees", "hears", "Rome", "Oslo", "in", "the", "rain"]
    rows = [draw.choices(words, k=draw.randint(2, 9)) for _ in range(120)]
    tags = {"Ann": "B-PER", "Bob": "B-PER", "Rome": "B-LOC", "Oslo": "B-LOC"}
    (folder / "tagged.conll").write_text(
        "\n".join("".join(f"{word} {tags.get(word, 'O')}\n" for word in row) for row in rows)
    )
    for name, order in (("source", 1), ("target", -1)):
        (folder / f"{name}.txt").write_text("".join(" ".join(row[::order]) + "\n" for row in rows))
    write_corpus(folder / "train.txt", 5, 60)
    write_corpus(folder / "valid.txt", 6, 13)
    small = {
        "model.num_layers": 1,
        "model.hidden_dim": 16,
        "model.num_heads": 2,
        "model.dropout": 0.0,
        "data.vocab_size": 300,
        "data.length": 32,
    }
    batches = {
        "train.learning_rate": 0.002,
        "train.batch_size": 16,
        "train.accumulate": 2,
        "eval.batch_size": 16,
    }
    text = {"data.train": folder / "train.txt", "data.validation": folder / "valid.txt"}
    tagged = {
        "data.task": "tagging",
        "data.train": folder / "tagged.conll",
        "data.validation": folder / "tagged.conll",
    }
    pairs = {
        f"data.{split}.{side}": folder / f"{side}.txt"
        for split in ("train", "validation")
        for side in ("source", "target")
    }
    finetuned = f"--pretrained={pretrained}", "--config.model.dropout=0.0"
    return {
        "masked_lm": ("pretrain", *corpus, *config_flags(**{"model.dropout": 0.0})),
        "causal_lm": (
            "pretrain",
            "--config=gpt2_small",
            *config_flags(**small, **batches, **text, **{"data.format": "lines"}),
        ),
        "classification": ("finetune", *finetuned, *labelled, "--config.data.pack=4"),
        "tagging": ("finetune", *finetuned, *config_flags(**batches, **tagged)),
        "translation": (
            "finetune",
            "--config=multi30k",
            *config_flags(
                **{**small, "data.vocab_size": 60, "data.length": 64},
                **pairs,
                **{"train.batch_tokens": 256, "checkpoint.average": 1, "eval.every": 0},
                # Adam scales up the rounding errors of key biases, whose gradient is 0.
                **{"train.learning_rate": 0.0005},
            ),
        ),
    }


def _steps(count):
    return config_flags(**{"train.epochs": None, "train.steps": count})


@pytest.mark.slow(minutes=15)
@pytest.mark.parametrize(
    "task", ["masked_lm", "causal_lm", "classification", "tagging", "translation"]
)
def test_a_run_of_tensorflow_goes_on_equally_on_any_devices(task, tasks, tmp_path):
    command, *flags = tasks[task]
    begun = tmp_path / "begun"
    run(command, f"--workdir={begun}", *flags, *_steps(2))
    found = {}
    names = ["tensorflow", "four"]
    names += ["mesh"] if task in ("masked_lm", "causal_lm", "translation") else []
    names += ["one", "processes"] if task == "masked_lm" else []
    for name in names:
        workdir = tmp_path / name
        shutil.copytree(begun, workdir)
        own = (f"--workdir={workdir}", *flags, *_steps(20))
        if name == "tensorflow":
            run(command, *own)
        elif name == "processes":
            own += ("--mesh=data:2,model:2", "--shard_optimizer")
            statuses, errors = finish(_start_processes(command, *own, **_devices(2)))
            assert statuses == [0, 0], errors
        elif name == "mesh":
            own += ("--mesh=data:4,model:2", "--shard_optimizer")
            run(command, "--engine=jax", *own, **_devices(8))
        else:
            run(command, "--engine=jax", *own, **_devices(4 if name == "four" else 1))
        found[name] = losses(workdir), weights(workdir, 20)
        assert len(found[name][0]) == 20
    expected, slots = found["tensorflow"]
    for values, arrays in found.values():
        np.testing.assert_allclose(values, expected, rtol=1e-5)
        assert set(arrays) == set(slots)
        for path, value in arrays.items():
            np.testing.assert_allclose(value, slots[path], atol=1e-5, err_msg=path)


def test_a_run_of_jax_goes_on_on_tensorflow(tasks, tmp_path):
    command, *flags = tasks["classification"]
    begun = tmp_path / "jax"
    run(command, f"--workdir={begun}", "--engine=jax", *flags, *_steps(4))
    handed = weights(begun, 4)
    shutil.copytree(begun, tmp_path / "tensorflow")
    out, _ = run(command, f"--workdir={tmp_path / 'tensorflow'}", *flags, *_steps(8))
    assert "resuming with engine=tensorflow, was jax" in out
    for path, value in weights(tmp_path / "tensorflow", 4).items():
        np.testing.assert_array_equal(value, handed[path])
    run(command, f"--workdir={begun}", "--engine=jax", *flags, *_steps(8))
    np.testing.assert_allclose(losses(begun), losses(tmp_path / "tensorflow"), rtol=1e-4)


@pytest.mark.slow(minutes=15)
def test_ten_kills_at_random_times_leave_the_result_bitwise_identical(corpus, tmp_path):
    steps, draw = 600, random.Random(0)
    flags = ["--engine=jax", *corpus, *_steps(steps)]
    flags += config_flags(**{"checkpoint.every": 20, "model.dropout": 0.1})
    broken, unbroken = tmp_path / "broken", tmp_path / "unbroken"
    run("pretrain", f"--workdir={unbroken}", *flags)
    for step in sorted(draw.sample(range(1, steps - 100), 10)):
        process = start("pretrain", f"--workdir={broken}", *flags)
        wait_for_step(broken, step, [process])
        process.kill()
        process.communicate()
    run("pretrain", f"--workdir={broken}", *flags)
    assert results(broken)["weights_sha256"] == results(unbroken)["weights_sha256"]
    assert steps_recorded(broken) == list(range(1, steps + 1))


def test_a_lost_process_ends_the_other_and_the_run_resumes(corpus, tmp_path):
    flags = [f"--workdir={tmp_path}", *corpus, *config_flags(**{"checkpoint.every": 10})]
    processes = _start_processes("pretrain", *flags, *_steps(100_000))
    wait_for_step(tmp_path, 20, processes)
    processes[1].kill()
    statuses, (error, _) = finish(processes, seconds=60)
    assert statuses[0] == 2, error
    assert "Another worker was lost; start all workers again" in error
    reached = steps_recorded(tmp_path)[-1]
    statuses, errors = finish(_start_processes("pretrain", *flags, *_steps(reached + 5)))
    assert statuses == [0, 0], errors
    assert steps_recorded(tmp_path) == list(range(1, reached + 6))
