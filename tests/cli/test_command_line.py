"""Flags of the commands: mistakes and faults of the system cost one line and status 2."""

import errno
import importlib
import os
import pathlib
import re
import subprocess
import sys

import keras
import pytest
import tensorflow as tf

from keras_attn.cli import command_line, failures
from keras_attn.defaults import (
    default_config,
    fields,
    finetuning_defaults,
    pretraining_defaults,
)
from tests.support.absl_flags import new_flags

ROOT = pathlib.Path(__file__).parents[2]


def _run(module, *arguments):
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        text=True,
        capture_output=True,
        timeout=600,
    )


@pytest.fixture
def run_here(monkeypatch, capsys):
    """Function `(command, *arguments)` that runs a command in this process.

    It returns the exit status, the output and the errors. A process that imports TensorFlow would
    take seconds.
    """
    for name in ("keep_freed_memory", "import_tensorflow", "prepare_streams"):
        monkeypatch.setattr(command_line, name, lambda *_: None)
    monkeypatch.setenv("KERAS_BACKEND", keras.backend.backend())  # which commands set

    def run(command, *arguments):
        monkeypatch.setattr(sys, "argv", ["command", *arguments])
        with new_flags(), pytest.raises(SystemExit) as ended:
            command()
        return ended.value.code or 0, *capsys.readouterr()

    return run


def command_of(module):
    return importlib.import_module(module).command


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (["--wrkdir=x"], ["wrkdir", "workdir"]),
        (["--config.train.stpes=3"], ["--config.train.stpes", "--config.train.steps?"]),
        (["--config.trian.steps", "3"], ["--config.trian.steps", "--config.train.steps?"]),
        (["--config=bert_mni"], ["bert_mni", "Did you mean bert_mini?"]),
        (["--config=nowhere/mine.py"], ["nowhere/mine.py"]),
        (["--config"], ["--config must be a .py file"]),
        (["--config=cloa"], ["Did you mean cola?"]),
        (
            ["--config=glue"],
            ["get_config(task) of", "glue.py requires an argument", "Append :TASK to --config"],
        ),
        (
            ["--config=configs/glue.py:sst"],
            ["task must be one of cola, mnli", "Received: task=sst. Did you mean sst2?"],
        ),
        (
            ["--config=bert_mini:sst2"],
            ["bert_mini.py does not accept an argument", "Remove :sst2 from --config"],
        ),
        (["--config.train.steps=many"], ["train.steps", "many"]),
        (["--config.train.steps=1.5"], ["train.steps", "1.5"]),
        (["--config.train.batch_size=None"], ["train.batch_size must have a value"]),
        (["--config.train.jit=maybe"], ["train.jit=maybe: must be a boolean"]),
        (["--nodry_run=1"], ["--nodry_run=1 does not take an argument"]),
        (["--config.train.steps"], ["train.steps"]),
        (["--strategy=mirored"], ["strategy", "mirored", "Did you mean mirrored?"]),
        (["--virtual_devices=-1"], ["virtual_devices", "-1"]),
        (["--virtual_devices=two"], ["virtual_devices", "two"]),
        (
            ["train.steps=3"],
            [
                "Positional arguments are not supported",
                "train.steps=3. Did you mean --config.train.steps?",
            ],
        ),
        (
            ["--learning_rate=3e-5"],
            ["Unknown flag --learning_rate. Did you mean --config.train.learning_rate?"],
        ),
        (["--lr", "3e-5"], ["Unknown flag --lr. Did you mean --config.train.learning_rate?"]),
        (["--batch_size=8"], ["--config.eval.batch_size or --config.train.batch_size?"]),
        (["--stratgy=tpu"], ["Unknown flag --stratgy. Did you mean --strategy?"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else str(value),
)
def test_a_mistake_on_the_command_line_is_one_line(arguments, messages, run_here):
    status, out, err = run_here(command_of("pretrain.__main__"), *arguments)
    assert status == 2
    assert out == "" and err.count("\n") == 1, err
    assert err.startswith("error: ")
    for message in messages:
        assert message in err


def test_a_process_prints_a_mistake_as_one_line():
    done = _run("pretrain", "--config.train.stpes=3")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("error: Unknown config field.") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "module",
    [
        "pretrain",
        "pretrain.prepare",
        "pretrain.generate",
        "finetune",
        "finetune.predict",
        "finetune.evaluate",
        "finetune.export",
        "finetune.translate",
    ],
)
def test_help_shows_usage_and_every_field_without_starting_tensorflow(module):
    done = _run(module, "--help")
    assert done.returncode == 0 and f"python -m {module}" in done.stdout
    assert "--workdir" in done.stdout or "--output" in done.stdout
    if "." not in module:
        defaults = pretraining_defaults() if module == "pretrain" else finetuning_defaults()
        for name, _ in fields(defaults):
            assert re.search(rf"--config\.{name}(=\S+)? +\w", done.stdout), name


@pytest.mark.parametrize(
    ("arguments", "task", "family"),
    [
        (["--config.data.objective=replaced_tokens"], "replaced_tokens", "electra"),
        (["--config.data.objective", "replaced_tokens"], "replaced_tokens", "electra"),
        (["--config.data.task=replaced_tokens"], "replaced_tokens", "electra"),
        (["--config.model.family=electra"], "replaced_tokens", "electra"),
        (["--config.model.family=electra", "--config.data.task=masked_lm"], "masked_lm", "electra"),
        (["--config.data.objective=language_modeling"], "causal_lm", "gpt2"),
    ],
)
def test_pretraining_is_selected_by_objective_and_family(arguments, task, family, run_here):
    status, out, _ = run_here(command_of("pretrain.__main__"), *arguments, "--help")
    wanted = default_config(task, family)
    # A value on the command line is parsed later.
    names = {name for name, _ in fields(wanted)} - {"workdir", "pretrained"}
    found = set(re.findall(r"^  --config\.([a-z_.]+)", out, re.M))
    assert status == 0 and names <= found
    assert ("model.generator_fraction" in found) == (task == "replaced_tokens")


def test_a_path_of_another_file_system_is_one_line_in_every_flag(tmp_path, run_here):
    url = "https://example.org/train.csv"
    cases = [
        ("pretrain.__main__", f"--config.data.train={url}", f"--workdir={tmp_path}/w"),
        ("pretrain.__main__", "--config.data.train=docstrings", f"--workdir={url}"),
        ("pretrain.prepare", f"--input=local.txt,{url}", f"--output={tmp_path}/w"),
        ("pretrain.generate", f"--workdir={url}"),
        ("finetune.__main__", f"--pretrained={url}", f"--workdir={tmp_path}/w"),
        ("finetune.__main__", f"--config.data.vocab={url}", f"--workdir={tmp_path}/w"),
        ("finetune.predict", f"--workdir={tmp_path}", f"--input={url}"),
        ("finetune.evaluate", f"--workdir={tmp_path}", f"--data={url}"),
        ("finetune.embed", f"--workdir={tmp_path}", "--text=a", f"--output={url}"),
        ("finetune.translate", f"--workdir={tmp_path}", f"--input={url}"),
        ("finetune.export", f"--workdir={url}", f"--output={tmp_path}/e"),
        ("keras_attn.convert.__main__", f"--from={url}", f"--to={tmp_path}/c"),
    ]
    for module, *arguments in cases:
        status, _, line = run_here(command_of(module), *arguments)
        flag = next(one for one in arguments if url in one).partition("=")[0]
        assert status == 2 and line.count("\n") == 1, line
        assert line.startswith("error: https:// paths are not supported.") and "gs://" in line
        assert line.endswith(f"Received: {flag}={url}\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.thorough
def test_a_storage_that_cannot_be_reached_is_one_line():
    code = (
        "from keras_attn.cli import command_line\n"
        "command_line.define_run_flags()\n"
        "def main():\n    import tensorflow as tf\n"
        "    raise tf.errors.FailedPreconditionError(None, None, 'Error executing an HTTP '\n"
        "        'request: Could not resolve host\\n\\t when reading gs://b/w')\n"
        "command_line.run_command(main, 'usage', 'bert_mini')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--workdir=gs://b/w"], cwd=ROOT, text=True, capture_output=True
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "--workdir=gs://b/w" in done.stderr and "Could not resolve host" in done.stderr


def test_a_reader_that_has_enough_ends_a_command_without_a_traceback():
    code = (
        "from keras_attn.cli import command_line\n"
        "command_line.import_tensorflow = lambda: None\n"
        "def main():\n    while True:\n        print('line')\n"
        "command_line.run_command(main, 'usage')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"line\n"
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(100) == 141 and b"Traceback" not in said


GRAPH_ERROR = """Graph execution error:

Detected at node encoder/einsum defined at (most recent call last):
OOM when allocating tensor with shape[4096,512,3072] and type float
"""


@pytest.mark.parametrize(
    ("error", "config", "fields"),
    [
        (
            MemoryError(),
            "bert_mini",
            [
                "train.accumulate",
                "train.remat",
                "eval.batch_size",
                "train.batch_size",
                "data.length",
            ],
        ),
        (
            tf.errors.ResourceExhaustedError(None, None, GRAPH_ERROR),
            "multi30k",
            [
                "train.accumulate",
                "train.remat",
                "eval.batch_size",
                "train.batch_tokens",
                "data.length",
            ],
        ),
        (MemoryError(), None, []),
    ],
)
def test_too_little_memory_names_the_fields_that_take_it(error, config, fields, run_here):
    status, _, err = run_here(lambda: command_line.run_command(raising(error), "usage", config))
    assert status == 2 and err.count("\n") == 1
    assert re.findall(r"config\.([\w.]*\w)", err) == fields
    assert ("OOM when allocating tensor with shape[4096,512,3072]" in err) == (
        not isinstance(error, MemoryError)
    )


def raising(error):
    def main():
        raise error

    return main


def test_too_little_memory_for_a_prediction_names_its_flag(run_here):
    def command():
        command_line.define_reading_flags(["tsv"])
        command_line.run_command(raising(MemoryError()), "usage")

    status, _, err = run_here(command)
    assert status == 2 and "Lower --batch_size." in err


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.EIO])
def test_a_fault_of_the_filesystem_is_one_line(number, monkeypatch, capsys):
    def fail():
        raise OSError(number, os.strerror(number), "runs/mini/lock")

    for name in ("_parse", "keep_freed_memory", "import_tensorflow", "prepare_streams"):
        monkeypatch.setattr(command_line, name, lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        command_line.run_command(fail, "usage")
    said = capsys.readouterr().err
    assert ended.value.code == 2 and said.count("\n") == 1
    assert os.strerror(number) in said and "runs/mini/lock" in said


def test_python_without_docstrings_is_named():
    done = subprocess.run(
        [sys.executable, "-OO", "-m", "pretrain", "--help"],
        cwd=ROOT,
        text=True,
        capture_output=True,
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "Set PYTHONOPTIMIZE to 1" in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_messages_are_printed_in_any_encoding(encoding):
    code = (
        "from keras_attn.io.terminal import prepare_streams\n"
        "import sys; prepare_streams()\n"
        "print('loss 1.0 · … 語'); print('→ \\udcff', file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert done.returncode == 0, done.stderr
    dot = "·" if encoding != "ascii" else "-"
    dots = "…" if encoding == "cp1252" else "..."
    assert done.stdout.decode(encoding) == f"loss 1.0 {dot} {dots} \\u8a9e\n"
    assert done.stderr.decode(encoding) == "\\u2192 \\udcff\n"


def test_closed_streams_are_opened_before_a_file_takes_their_place(tmp_path):
    code = (
        "from keras_attn.io.terminal import prepare_streams, standard_output\n"
        "import os, sys; prepare_streams(); print('lost'); print('lost', file=sys.stderr)\n"
        f"with open({str(tmp_path / 'a')!r}, 'w') as file:\n"
        "    os.write(1, b'stray'); os.write(2, b'stray')\n"
        "    file.write(f'{file.fileno() > 2} {standard_output()}')\n"
    )

    def close():
        for number in range(3):
            os.close(number)

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, preexec_fn=close)
    assert done.returncode == 0 and (tmp_path / "a").read_text() == "True None"


def test_what_was_printed_last_is_not_lost_in_silence():
    code = (
        "from keras_attn.cli import command_line as c\n"
        "c._parse = c.import_tensorflow = lambda *_: None\n"
        "c.run_command(lambda: print('x'), 'usage')"
    )
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, text=True, stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "No space left" in done.stderr


def test_a_bug_ends_one_of_several_workers_at_once(monkeypatch, capsys):
    error = ZeroDivisionError("a bug")
    assert failures.exit_in_cluster(error) is None
    monkeypatch.setattr(failures, "_in_cluster", lambda: True)
    monkeypatch.setattr(failures.os, "_exit", sys.exit)
    with pytest.raises(SystemExit, match="1"):
        failures.exit_in_cluster(error)
    assert capsys.readouterr().err == "ZeroDivisionError: a bug\n"
