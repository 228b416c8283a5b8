"""A cluster that loses a worker ends soon, and can be resumed."""

import json
import time

import pytest

from tests.support.started_commands import (
    config_flags,
    finish,
    results,
    run,
    start_workers,
    steps_recorded,
    wait_for_step,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("workers", "lost"), [(2, 1), (2, 0), (4, 2)])
def test_the_other_workers_end_within_a_minute_and_the_run_resumes(corpus, tmp_path, workers, lost):
    flags = [
        f"--workdir={tmp_path}",
        *corpus,
        *config_flags(**{"checkpoint.every": 20, "train.accumulate": 1}),
    ]
    endless = [*flags, "--config.train.steps=1000000"]
    processes = start_workers(workers, "pretrain", *endless)
    wait_for_step(tmp_path, 45, processes)
    processes[lost].kill()
    begin = time.monotonic()
    statuses, errors = finish(processes, seconds=60)
    assert time.monotonic() - begin < 60
    assert statuses == [-9 if index == lost else 2 for index in range(workers)], errors
    for index, error in enumerate(errors):
        if index != lost:
            assert "error: Another worker was lost; start all workers again" in error
            assert "Traceback" not in error
    statuses, errors = finish(
        start_workers(workers, "pretrain", *flags, "--config.train.steps=200")
    )
    assert statuses == [0] * workers, errors
    assert "resuming from the checkpoint of step" in errors[0]
    assert steps_recorded(tmp_path) == list(range(1, results(tmp_path)["steps"] + 1))


def test_a_chief_that_fails_before_training_leaves_no_worker_waiting(texts, corpus, tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"good.\n\xff\xfe bad.\n")
    flags = [
        f"--workdir={tmp_path / 'run'}",
        *corpus,
        f"--config.data.train={tmp_path / 'bad.txt'}",
    ]
    processes = start_workers(2, "pretrain", *flags)
    statuses, errors = finish(processes, seconds=90)
    assert statuses == [2, 2], errors
    assert "bad.txt" in errors[0] and "Another worker was lost" in errors[1]


def test_a_worker_with_other_data_ends_the_run(corpus, texts, tmp_path):
    program = tmp_path / "own_folder.py"  # each worker reads train.tsv in its own folder
    program.write_text(
        "import json, os\n"
        "from finetune.__main__ import command\n"
        "index = json.loads(os.environ['TF_CONFIG'])['task']['index']\n"
        f"os.chdir(os.path.join({str(tmp_path)!r}, str(index)))\n"
        "command()\n"
    )
    for index, more in enumerate(["", "tin\tbad\n"]):
        (tmp_path / str(index)).mkdir()
        (tmp_path / str(index) / "train.tsv").write_text((texts / "train.tsv").read_text() + more)
    flags = [
        f"--workdir={tmp_path / 'run'}",
        *config_flags(
            **{
                "data.train": "train.tsv",
                "data.text": "text",
                "data.label": "label",
                "data.vocab_size": 300,
                "train.steps": 2,
            }
        ),
    ]
    statuses, errors = finish(start_workers(2, "own_folder", *flags, folder=tmp_path), seconds=90)
    assert statuses == [2, 2], errors
    assert "Another worker was lost" in errors[0]
    assert "error: All workers must have the same data" in errors[1]


def test_workers_wait_for_a_slow_chief(corpus, tmp_path):
    # A stopped process has no heartbeats, but one that computes does. The chief of this run
    # sleeps 80 s in Python before its first checkpoint, longer than any timeout.
    program = tmp_path / "slow_chief.py"
    program.write_text(
        "import os, time\n"
        "from keras_attn.training.checkpoints import Checkpoints\n"
        "save = Checkpoints.save\n"
        "def slowly(self, step, *rest, **named):\n"
        "    time.sleep(80 if step == 5 else 0)\n"
        "    save(self, step, *rest, **named)\n"
        "Checkpoints.save = slowly\n"
        "from pretrain.__main__ import command\n"
        "command()\n"
    )
    flags = [f"--workdir={tmp_path / 'run'}", *corpus, *config_flags(**{"checkpoint.every": 5})]
    statuses, errors = finish(start_workers(2, "slow_chief", *flags, folder=tmp_path))
    assert statuses == [0, 0], errors
    assert results(tmp_path / "run")["steps"] == 20


def test_sigterm_to_one_worker_stops_all_and_saves(corpus, tmp_path):
    flags = [f"--workdir={tmp_path}", *corpus]
    processes = start_workers(2, "pretrain", *flags, "--config.train.steps=1000000")
    wait_for_step(tmp_path, 20, processes)
    processes[1].terminate()
    statuses, errors = finish(processes, seconds=60)
    assert statuses == [143, 143], errors
    last = steps_recorded(tmp_path)[-1]
    run("pretrain", *flags, f"--config.train.steps={last + 10}")
    assert steps_recorded(tmp_path) == list(range(1, last + 11))


def test_sigterm_while_workers_evaluate_stops_all_and_the_evaluation_is_repeated(corpus, tmp_path):
    program = tmp_path / "slow_evaluation.py"
    program.write_text(
        "import pathlib, time\n"
        "from keras_attn.training.engines.tensorflow.evaluation import TensorFlowEvaluator\n"
        "run = TensorFlowEvaluator.run\n"
        "def slowly(self, batches, stop):\n"
        "    make = self._batch\n"
        "    def slow(batch):\n"
        f"        pathlib.Path({str(tmp_path / 'evaluating')!r}).touch()\n"
        "        time.sleep(2)\n"
        "        return make(batch)\n"
        "    self._batch = slow\n"
        "    return run(self, batches, stop)\n"
        "TensorFlowEvaluator.run = slowly\n"
        "from pretrain.__main__ import command\n"
        "command()\n"
    )
    workdir = tmp_path / "run"
    flags = [f"--workdir={workdir}", *corpus, *config_flags(**{"eval.every": 10})]
    processes = start_workers(2, "slow_evaluation", *flags, folder=tmp_path)
    while not (tmp_path / "evaluating").exists():
        assert all(process.poll() is None for process in processes)
        time.sleep(0.1)
    processes[1].terminate()
    statuses, errors = finish(processes, seconds=60)
    assert statuses == [143, 143], errors
    assert steps_recorded(workdir) == list(range(1, 10))
    run("pretrain", *flags)
    assert steps_recorded(workdir) == list(range(1, 21))
    records = [json.loads(line) for line in (workdir / "metrics.jsonl").open()]
    assert [r["step"] for r in records if "validation_mlm_loss" in r] == [10, 20]
