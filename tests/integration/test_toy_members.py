"""A family and a task of the tests, each registered by one line, work like other members."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

import tests.support.toys  # noqa: F401
from keras_attn import convert, finetune, load, pretrain
from keras_attn.defaults import default_config
from keras_attn.errors import UserError
from keras_attn.export.saved_model import export
from keras_attn.inference.evaluate import evaluate
from keras_attn.inference.predict_files import predict_file
from keras_attn.registry import family_and_task
from tests.support.started_commands import ROOT, write_corpus

pytestmark = pytest.mark.runs
TEXTS = [" ".join(["good"] * (n % 4) + ["film", "it", "was"][: 1 + n % 3]) for n in range(24)]


def _pretraining(folder, steps, **fields):
    config = default_config("masked_lm", "toy")
    config.update_from_flattened_dict(
        {
            "data.train": str(folder / "text.txt"),
            "data.format": "lines",
            "data.length": 32,
            "data.segments": "full_sentences",
            "data.vocab_size": 200,
            "train.steps": steps,
            "train.batch_size": 8,
            **fields,
        }
    )
    return config


def _counting(folder, **fields):
    config = default_config("counting")
    config.update_from_flattened_dict(
        {
            "data.task": "counting",
            "data.train": str(folder / "counts.txt"),
            "train.steps": 300,
            "train.batch_size": 8,
            "model.new_heads": True,
            **fields,
        }
    )
    return config


def _run(command, *arguments):
    """Runs a command of `finetune` with the toy members registered."""
    code = f"import tests.support.toys; from finetune.{command} import command; command()"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toys")
    write_corpus(folder / "text.txt", seed=0, documents=60)
    with open(folder / "text.txt", "a") as file:
        file.write("\n".join(TEXTS * 20) + "\n")
    (folder / "counts.txt").write_text("\n".join(TEXTS) + "\n")
    (folder / "counts.jsonl").write_text(
        "".join(
            json.dumps({"text": text, "count": text.split().count("good")}) + "\n" for text in TEXTS
        )
    )
    pretrain(_pretraining(folder, 30), folder / "toy")
    finetune(_counting(folder), folder / "counts", folder / "toy")
    return folder


def test_a_toy_family_pretrains_and_fills_masks(folder):
    assert json.loads((folder / "toy/config.json").read_text())["kind"] == "toy_masked_lm"
    assert family_and_task("toy_masked_lm") == ("toy", "masked_lm")
    assert len(load(folder / "toy").fill_mask("it was [MASK]", top=3)) == 3


@pytest.mark.slow  # bitwise comparison with a command, which compiles with all optimizations
def test_a_killed_run_of_a_toy_family_resumes_bitwise_identically(folder, tmp_path):
    flags = {
        "config.data.train": folder / "text.txt",
        "config.train.steps": 1500,
        "config.checkpoint.every": 20,
        "workdir": tmp_path / "run",
    }
    command = [
        sys.executable,
        "-c",
        "import tests.support.toys; from pretrain.__main__ import command; command()",
        f"--config={ROOT / 'tests/support/toy_config.py'}",
    ]
    process = subprocess.Popen(
        [*command, *(f"--{name}={value}" for name, value in flags.items())],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 300
    while not list((tmp_path / "run").glob("checkpoints/step-*")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "run/results.json").exists()
    again = pretrain(_pretraining(folder, 1500), tmp_path / "run")
    whole = pretrain(_pretraining(folder, 1500), tmp_path / "whole")
    assert again["weights_sha256"] == whole["weights_sha256"]


def test_a_toy_family_is_finetuned_by_a_task_of_the_library(folder, tmp_path):
    rows = [{"text": text, "label": "good" if "good" in text else "none"} for text in TEXTS]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = default_config("classification")
    config.data.update(train=str(tmp_path / "rows.jsonl"), text="text", label="label")
    config.train.update(steps=300, batch_size=8, learning_rate=1e-2)
    finetune(config, tmp_path / "run", folder / "toy")
    assert json.loads((tmp_path / "run/config.json").read_text())["kind"] == "toy_classification"
    predict_file(str(tmp_path / "run"), str(tmp_path / "rows.jsonl"), str(tmp_path / "out.jsonl"))
    found = [json.loads(line)["label"] for line in (tmp_path / "out.jsonl").open()]
    assert np.mean([row["label"] == label for row, label in zip(rows, found, strict=True)]) > 0.9
    assert evaluate(str(tmp_path / "run"), str(tmp_path / "rows.jsonl"))["accuracy"] > 0.9
    export(str(tmp_path / "run"), str(tmp_path / "saved"))
    served = tf.saved_model.load(str(tmp_path / "saved")).signatures["serving_default"]
    assert [label.decode() for label in served(text=tf.constant(TEXTS))["label"].numpy()] == found


def test_a_toy_family_is_converted_to_and_from_its_own_format(folder, tmp_path):
    convert(folder / "toy", tmp_path / "arrays", "arrays")
    assert convert.detect(str(tmp_path / "arrays")) == ("toy", "arrays")
    convert(tmp_path / "arrays", tmp_path / "again")
    assert convert.read(tmp_path / "again").sha256 == convert.read(folder / "toy").sha256
    assert convert(folder / "toy", tmp_path / "heads", "workdir", task="masked_lm") == []
    expected = "task must be one of masked_lm, embedding. Received: task=encoder"
    with pytest.raises(UserError, match=expected):
        convert(folder / "toy", tmp_path / "none", "workdir", task="encoder")


def test_a_toy_task_is_predicted_evaluated_and_exported(folder, tmp_path):
    workdir = str(folder / "counts")
    assert json.loads((folder / "counts/config.json").read_text())["kind"] == "toy_counting"
    assert evaluate(workdir, str(folder / "counts.jsonl"))["mean_error"] < 0.2
    predict_file(workdir, str(folder / "counts.txt"), str(tmp_path / "out.counts"))
    found = np.loadtxt(tmp_path / "out.counts")
    np.testing.assert_allclose(found, [text.split().count("good") for text in TEXTS], atol=0.8)
    export(workdir, str(tmp_path / "saved"))
    served = tf.saved_model.load(str(tmp_path / "saved")).signatures["serving_default"]
    np.testing.assert_allclose(served(text=tf.constant(TEXTS))["count"], found, atol=1e-4)
    convert(workdir, tmp_path / "copy", "workdir")
    np.testing.assert_array_equal(load(tmp_path / "copy").count(TEXTS), load(workdir).count(TEXTS))
    assert json.loads((tmp_path / "copy/word.json").read_text()) == {"word": "good"}


def test_a_toy_task_has_fields_options_and_files_of_its_own_in_the_commands(folder, tmp_path):
    rows, workdir = folder / "counts.jsonl", tmp_path / "run"
    status, _, output = _run(
        "__main__",
        "--config=classify",
        "--config.data.task=counting",
        "--config.data.word=film",
        f"--config.data.train={folder / 'counts.txt'}",
        "--config.train.steps=2",
        "--config.model.new_heads=True",
        f"--pretrained={folder / 'toy'}",
        f"--workdir={workdir}",
    )
    assert status == 0, output
    data = json.loads((workdir / "config.json").read_text())["config"]["data"]
    assert data["word"] == "film" and "max_question" not in data and "positive" not in data
    status, output, _ = _run(
        "evaluate", f"--workdir={workdir}", f"--data={rows}", "--rounded", "--format=counts"
    )
    assert status == 0 and output.endswith("word: film\n")
    errors = 24 * evaluate(str(workdir), str(rows), rounded=True)["mean_error"]
    assert errors == pytest.approx(round(errors), abs=1e-9)  # the sum of whole numbers
    status, output, _ = _run("predict", f"--workdir={workdir}", "--text=good", "--decimals=2")
    assert status == 0 and len(output.strip().partition(".")[2]) == 2
    for command, option in (("evaluate", "--label_column=x"), ("export", "--pairs")):
        status, _, output = _run(
            command,
            f"--workdir={workdir}",
            option,
            *([f"--data={rows}"] if command == "evaluate" else [f"--output={tmp_path / 'new'}"]),
        )
        assert status == 2 and output.startswith(f"error: finetune.{command} has no ")
    status, _, output = _run("evaluate", f"--workdir={workdir}", f"--data={rows}", "--format=csv")
    assert status == 2 and "Choose one of counts. Received: format=csv" in output
    status, _, output = _run(
        "predict",
        f"--workdir={workdir}",
        f"--input={folder / 'counts.txt'}",
        f"--output={workdir / 'word.json'}",
    )
    assert status == 2 and "must not be a file of the model" in output


def test_several_seeds_of_a_toy_task_are_combined_by_it(folder, tmp_path):
    config = _counting(folder, **{"train.steps": 1, "train.seeds": 2})
    results = finetune(config, tmp_path / "runs", folder / "toy")
    errors = [run["mean_error"] for run in results["runs"]]
    assert results["mean_error"] == np.mean(errors) and results["worst_error"] == max(errors)
    best = min(results["runs"], key=lambda run: run["mean_error"])  # lower is better
    assert results["best_run"] == best["run"]


def test_files_of_a_toy_task_are_removed_after_an_error(folder, tmp_path):
    config = _counting(folder, **{"data.vocab": str(tmp_path / "nowhere")})
    with pytest.raises(UserError):
        finetune(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["bert", "gpt2", "xlnet"])
def test_a_toy_task_works_with_the_families_of_the_library(name, folder, tmp_path):
    task, fields = {
        "bert": ("masked_lm", {"data.segments": "full_sentences", "model.norm_first": False}),
        "gpt2": ("causal_lm", {}),
        "xlnet": ("permutation_lm", {}),
    }[name]
    config = default_config(task, name)
    config.update_from_flattened_dict(
        {
            "data.train": str(folder / "text.txt"),
            "data.format": "lines",
            "data.length": 32,
            "data.vocab_size": 300,
            "train.steps": 2,
            "train.batch_size": 8,
            "model.num_layers": 1,
            "model.hidden_dim": 16,
            "model.num_heads": 2,
            **fields,
        }
    )
    pretrain(config, tmp_path / "first")
    config = _counting(folder)
    config.train.steps = 2
    finetune(config, tmp_path / "run", tmp_path / "first")
    assert json.loads((tmp_path / "run/config.json").read_text())["kind"] == f"{name}_counting"
    convert(tmp_path / "run", tmp_path / "theirs", "huggingface")
    found = json.loads((tmp_path / "theirs/config.json").read_text())
    prefix = {"bert": "Bert", "gpt2": "GPT2", "xlnet": "XLNet"}[name]
    assert found["architectures"] == [f"{prefix}ForCounting"] and found["count_scale"] == 1.0
    kernel = convert.read(tmp_path / "run").weights["count_dense/kernel"]
    np.testing.assert_array_equal(
        load_file(tmp_path / "theirs/model.safetensors")["counter.weight"], np.transpose(kernel)
    )
    assert convert.read(tmp_path / "theirs").sha256 == convert.read(tmp_path / "run").sha256
    predict_file(str(tmp_path / "run"), str(folder / "counts.txt"), str(tmp_path / "out.tsv"))
    assert len(np.loadtxt(tmp_path / "out.tsv")) == len(TEXTS)


def test_the_help_of_a_toy_family_has_its_fields():
    command = "import tests.support.toys; from pretrain.__main__ import command; command()"
    output = subprocess.run(
        [sys.executable, "-c", command, "--config=tests/support/toy_config.py", "--help"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    assert "--config.model.hidden_dim=16" in output and "--config.model.family=toy" in output
