"""Runs the real commands as processes of their own, alone or as workers of a cluster."""

import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import time

import numpy as np

ROOT = pathlib.Path(__file__).parents[2]
TINY = {
    "data.format": "lines",
    "data.vocab_size": 300,
    "data.length": 32,
    "data.max_predictions": 5,
    "model.num_layers": 1,
    "model.hidden_dim": 16,
    "model.num_heads": 2,
    "model.max_length": 64,
    "train.batch_size": 8,
    "train.accumulate": 2,
    "train.steps": 20,
    "eval.batch_size": 8,
}


def write_corpus(path, seed, documents):
    """Documents of made-up sentences, one sentence a line."""
    draw = random.Random(seed)
    words = [a + b + c for a in "bdfgklmnprst" for b in "aeiou" for c in ("", "n", "s", "t")]
    with open(path, "w") as file:
        for _ in range(documents):
            for _ in range(draw.randint(3, 12)):
                file.write(" ".join(draw.choices(words, k=draw.randint(3, 9))) + ".\n")
            file.write("\n")


def write_table(path, seed, rows):
    """Writes a TSV of texts with a label that depends on the words."""
    draw = random.Random(seed)
    with open(path, "w") as file:
        file.write("text\tlabel\n")
        for _ in range(rows):
            label = draw.choice(["good", "bad"])
            own = ["bas", "ben", "bin"] if label == "good" else ["tas", "ten", "tin"]
            words = draw.choices([*own, "kon", "lun", "mas"], k=draw.randint(1, 12))
            file.write(f"{' '.join(words)}\t{label}\n")


def config_flags(**fields):
    """`--config.` flags of a dict of dotted fields."""
    return [f"--config.{name}={value}" for name, value in fields.items()]


def start(module, *flags, **environment):
    """Starts a command; its output and errors come through pipes."""
    hidden = ("TF_CONFIG", "KERAS_BACKEND")
    inherited = {name: value for name, value in os.environ.items() if name not in hidden}
    return subprocess.Popen(
        [sys.executable, "-m", module, *map(str, flags)],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**inherited, **environment},
    )


def run(module, *flags, status=0, **environment):
    """Runs a command to its end; returns its output and errors."""
    process = start(module, *flags, **environment)
    out, err = process.communicate(timeout=600)
    assert process.returncode == status, f"status {process.returncode}\n{out}\n{err}"
    return out, err


def start_workers(number, module, *flags, folder=""):
    """Starts the workers of a cluster on this machine; `folder` may hold the module."""
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    workers = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return [
        start(
            module,
            *flags,
            PYTHONPATH=str(folder),
            TF_CONFIG=json.dumps(
                {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
            ),
        )
        for index in range(number)
    ]


def finish(processes, seconds=300):
    """Waits for processes; returns their statuses and the errors they printed."""
    errors = [process.communicate(timeout=seconds)[1] for process in processes]
    return [process.returncode for process in processes], errors


def steps_recorded(workdir):
    """Steps in metrics.jsonl, in order; whole lines only."""
    path = pathlib.Path(workdir) / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line)["step"] for line in lines if line.endswith("\n")]


def wait_for_step(workdir, step, processes, seconds=300):
    """Waits until a step is recorded."""
    end = time.monotonic() + seconds
    while (steps_recorded(workdir) or [0])[-1] < step:
        ended = [p.communicate() for p in processes if p.poll() is not None]
        assert not ended, f"ended before step {step}: {ended}"
        assert time.monotonic() < end, f"no step {step} within {seconds} s"
        time.sleep(0.05)


def results(workdir):
    return json.loads((pathlib.Path(workdir) / "results.json").read_text())


def losses(workdir):
    lines = (pathlib.Path(workdir) / "metrics.jsonl").read_text().splitlines()
    return np.array([json.loads(line)["loss"] for line in lines])


def weights(workdir, step):
    """Weights and optimizer slots in a checkpoint, by path."""
    with np.load(pathlib.Path(workdir) / "checkpoints" / f"step-{step}.npz") as arrays:
        return {name: arrays[name] for name in arrays.files if name != "state"}
