"""The commands of the README, one after the other, and the demo."""

import json
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest

from tests.support.environments import run as run_program
from tests.support.started_commands import ROOT, config_flags, results, run, write_table

pytestmark = pytest.mark.slow

SMALL = config_flags(
    **{
        "model.num_layers": 1,
        "model.hidden_dim": 16,
        "model.num_heads": 2,
        "train.batch_size": 8,
        "train.steps": 3,
        "eval.batch_size": 8,
    }
)


def test_prepare_pretrain_resume_finetune_and_predict(texts, tmp_path):
    _, _ = run(
        "pretrain.prepare",
        f"--input={texts / 'train.txt'}",
        f"--output={tmp_path / 'ids'}",
        "--vocab_size=300",
        "--processes=1",
    )
    validation = f"--config.data.validation={texts / 'valid.txt'}"
    run(
        "pretrain",
        "--config=configs/bert_mini.py",
        f"--workdir={tmp_path / 'mini'}",
        *SMALL,
        f"--config.data.train={tmp_path / 'ids'}",
        validation,
    )
    run(
        "pretrain",
        f"--pretrained={tmp_path / 'mini'}",
        f"--workdir={tmp_path / 'longer'}",
        f"--config.data.train={texts / 'valid.txt'}",
        "--config.data.length=256",
        validation,
        *config_flags(**{"train.batch_size": 4, "train.steps": 2, "eval.batch_size": 4}),
    )
    assert {"mlm_accuracy", "mlm_loss", "nsp_accuracy"} <= set(results(tmp_path / "longer"))
    for split, seed in (("train", 3), ("dev", 4)):
        write_table(tmp_path / f"{split}.tsv", seed, 64)
        text = (tmp_path / f"{split}.tsv").read_text().replace("text\t", "sentence\t", 1)
        text = text.replace("\tgood", "\t1").replace("\tbad", "\t0")
        (tmp_path / f"{split}.tsv").write_text(text)
    run(
        "finetune",
        f"--pretrained={tmp_path / 'longer'}",
        f"--workdir={tmp_path / 'sst2'}",
        "--config=configs/sst2.py",
        f"--config.data.train={tmp_path / 'train.tsv'}",
        f"--config.data.validation={tmp_path / 'dev.tsv'}",
        *config_flags(**{"train.epochs": 20.0, "train.learning_rate": 0.02}),
    )
    assert results(tmp_path / "sst2")["accuracy"] > 0.9
    out, _ = run(
        "finetune.predict",
        f"--workdir={tmp_path / 'sst2'}",
        "--text=bas ben bin",
        "--text=tas ten tin",
    )
    head, *rows = (line.split("\t") for line in out.splitlines())
    assert head == ["label", "negative", "positive"]
    assert [row[0] for row in rows] == ["positive", "negative"]
    _assert_the_keras_file_is_the_model(tmp_path / "sst2")


def _assert_the_keras_file_is_the_model(workdir):
    program = f"""
import json, keras, numpy as np, keras_attn.models
ids = np.array([[2, 7, 8, 9, 3]], "int32")
batch = {{"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1}}
model = keras.saving.load_model({str(workdir / "model.keras")!r})
print(json.dumps(np.asarray(model(batch)["logits"]).tolist()))
model = keras_attn.load({str(workdir)!r}).model
print(json.dumps(np.asarray(model(batch)["logits"]).tolist()))
"""
    *_, first, second = run_program([sys.executable, "-c", program], ROOT).splitlines()
    np.testing.assert_array_equal(json.loads(first), json.loads(second))


@pytest.mark.slow(minutes=15)
def test_the_demo_prints_the_results_of_its_runs(tmp_path):
    demo = [
        sys.executable,
        "examples/demo.py",
        f"--workdir={tmp_path}",
        "--minutes=0.1",
        "--labels=60",
        "--seeds=2",
    ]
    out = run_program(demo, ROOT, timeout=900)
    found = results(tmp_path / "pretrained-0.1-minutes")
    bert = [numbers.split() for numbers in re.findall(r"^BERT  (.*)$", out, re.M)]
    assert bert[0] == [f"{found['mlm_accuracy']:.3f}", f"{np.exp(found['mlm_loss']):.1f}"]
    assert bert[1] == [f"{found['nsp_accuracy']:.3f}"]
    for label, kind in (("pretrained", "pretrained-0.1-minutes"), ("from scratch", "scratch")):
        accuracies = [
            results(tmp_path / f"60-labels/{kind}/seed-{seed}")["accuracy"] for seed in range(2)
        ]
        shown = re.search(rf"^BERT, {label} +(\S+) +± (\S+)$", out, re.M)
        # Student's t for 95 % with one degree of freedom is 12.706.
        half = 12.706 * abs(accuracies[0] - accuracies[1]) / 2
        assert float(shown[1]) == pytest.approx(np.mean(accuracies), abs=6e-4)
        assert float(shown[2]) == pytest.approx(half, abs=1e-3)
    assert re.search(r"^bag of bigrams, logistic regression +0\.\d+ +± ", out, re.M)


def test_a_translator_is_trained_and_used_from_the_shell(tmp_path):
    pairs = [("red", "rot"), ("cat", "Katze"), ("big", "groß"), ("dog", "Hund"), ("sees", "sieht")]
    random = np.random.default_rng(0)
    order = [random.integers(0, len(pairs), random.integers(1, 6)) for _ in range(600)]
    for side, language in enumerate(("en", "de")):
        lines = [" ".join(pairs[one][side] for one in row) + "\n" for row in order]
        (tmp_path / f"a.{language}").write_text("".join(lines))
        (tmp_path / f"b.{language}").write_text("".join(lines[:60]))
    small = config_flags(
        **{
            "model.size": "tiny",
            "model.num_layers": 1,
            "model.hidden_dim": 32,
            "model.num_heads": 2,
            "model.intermediate_dim": 64,
            "model.dropout": 0.0,
            "data.vocab_size": 60,
            "data.length": 32,
            "train.batch_tokens": 512,
            "train.epochs": 30.0,
            "checkpoint.every": 20,
            "checkpoint.average": 2,
            "eval.every": 0,
            **{
                f"data.{split}.{side}": tmp_path / f"{name}.{language}"
                for split, name in (("train", "a"), ("validation", "b"))
                for side, language in (("source", "en"), ("target", "de"))
            },
        }
    )
    run("finetune", "--config=configs/multi30k.py", f"--workdir={tmp_path / 'run'}", *small)
    assert results(tmp_path / "run")["bleu"] > 90
    translate = [sys.executable, "-m", "finetune.translate", f"--workdir={tmp_path / 'run'}"]
    lines = b"red cat\n\nbig dog sees\n"
    done = subprocess.run(translate, cwd=ROOT, input=lines, capture_output=True, check=True)
    assert done.stdout.decode() == "rot Katze\n\ngroß Hund sieht\n"
    assert b"3 lines translated" in done.stderr
    done = subprocess.run(
        [*translate, "--nbest=2", "--beam=3", "--scores", "--precision=bfloat16"],
        cwd=ROOT,
        input=lines,
        capture_output=True,
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert [len(one) for one in found] == [2, 1, 2]
    assert set(found[0][0]) == {"text", "score", "log_probability", "finished"}
    (tmp_path / "in.txt").write_bytes(lines + b"\xff\n")
    output = tmp_path / "out.jsonl"
    run(
        "finetune.translate",
        f"--workdir={tmp_path / 'run'}",
        f"--input={tmp_path / 'in.txt'}",
        f"--output={output}",
        "--alignments",
        "--length_penalty=0",
        "--batch_size=2",
        "--on_bad_text=skip",
        "--beam=1",
    )
    found = [json.loads(line) for line in output.read_text().splitlines()]
    assert [one[0]["text"] for one in found] == ["rot Katze", "", "groß Hund sieht", ""]
    assert set(found[0][0]) == {"text", "source_tokens", "tokens", "alignments"}
    done = subprocess.run(translate, cwd=ROOT, input=lines + b"\xff\n", capture_output=True)
    assert done.returncode == 2 and b"line 4" in done.stderr and b"Traceback" not in done.stderr
    # A reader that closes the pipe after one line causes no traceback.
    command = f"{shlex.join(translate)} < {shlex.quote(str(tmp_path / 'a.en'))} | head -1"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True)
    assert done.stdout.count(b"\n") == 1 and b"Traceback" not in done.stderr
    out, _ = run(
        "finetune.evaluate",
        f"--workdir={tmp_path / 'run'}",
        f"--source={tmp_path / 'b.en'}",
        f"--target={tmp_path / 'b.de'}",
        "--output=-",
    )
    assert json.loads(out)["bleu"] == results(tmp_path / "run")["bleu"]
    out, _ = run(
        "finetune.evaluate",
        f"--workdir={tmp_path / 'run'}",
        "--precision=bfloat16",
        f"--source={tmp_path / 'b.en'}",
        f"--target={tmp_path / 'b.de'}",
        "--output=-",
    )
    assert json.loads(out)["bleu"] > 90
    run("finetune.export", f"--workdir={tmp_path / 'run'}", f"--output={tmp_path / '1'}")
    out = run_program(
        [
            sys.executable,
            "-c",
            f"""
import tensorflow as tf, tensorflow_text
model = tf.saved_model.load({str(tmp_path / "1")!r})
print(model.serve(tf.constant(["red cat"]))["translation"].numpy()[0].decode())
""",
        ],
        ROOT,
    )
    assert out.splitlines()[-1] == "rot Katze"
    example = [
        sys.executable,
        "examples/translate.py",
        f"--source={tmp_path / 'a.en'}",
        f"--target={tmp_path / 'a.de'}",
        f"--workdir={tmp_path / 'example'}",
        "--minutes=0.1",
        "--text=red cat",
    ]
    assert re.search(r"^red cat\n\S+", run_program(example, ROOT), re.M)
    (tmp_path / "a.de").write_bytes(b"\xff\n" * 200)
    done = subprocess.run(example, cwd=ROOT, capture_output=True)
    assert done.returncode == 2 and b"a.de, line 1" in done.stderr.splitlines()[-1]
