"""Metrics of a finetuned model on labeled rows equal those of training and of predictions."""

import json
import sys

import numpy as np
import pytest

from keras_attn import finetune, load
from keras_attn.defaults import finetuning_defaults
from keras_attn.errors import UserError
from keras_attn.inference.evaluate import evaluate
from keras_attn.tasks.classification.metrics import classification_metrics
from keras_attn.tasks.finetuning.seed_statistics import metrics_among
from tests.support.environments import ROOT, run
from tests.support.quick import quick

CLASSES = ("bad", "fair", "good")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A classification run and its validation rows."""
    folder = tmp_path_factory.mktemp("evaluated")
    random = np.random.default_rng(0)
    for name, count in {"train": 60, "valid": 37}.items():
        rows = [
            {
                "text": f"{CLASSES[k]} " * random.integers(1, 9) + f"film {n}",
                "class": CLASSES[k],
                "score": k + 0.5,
            }
            for n, k in enumerate(random.integers(0, 3, count).tolist())
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    _finetune(folder, "class")
    return folder


@pytest.fixture(scope="module")
def regression(folder):
    """A regression run in the same folder."""
    _finetune(folder, "score")


def _finetune(folder, label):
    config = finetuning_defaults()
    config.update_from_flattened_dict(
        {
            "data.train": str(folder / "train.jsonl"),
            "data.text": "text",
            "data.label": label,
            "data.validation": str(folder / "valid.jsonl"),
            "data.regression": label == "score",
            "data.length": 24,
            "data.vocab_size": 100,
            "train.steps": 20,
            "train.batch_size": 8,
            "train.learning_rate": 0.005,
            "model.pooling": "mean",
            "eval.report": False,
        }
    )
    finetune(config, workdir=str(folder / label))


@pytest.mark.parametrize("batch_size", [1, 5, 64])
@pytest.mark.parametrize("run", quick(["class", "score"], "class"))
def test_metrics_equal_those_of_the_run(folder, run, batch_size, request):
    if run == "score":
        request.getfixturevalue("regression")
    results = json.loads((folder / run / "results.json").read_text())
    found = evaluate(str(folder / run), str(folder / "valid.jsonl"), batch_size)
    assert (found.pop("examples"), found.pop("skipped")) == (37, 0)
    assert len(found) >= 3
    assert found.get("classes") == results.get("classes")
    for name, value in metrics_among(found).items():
        assert value == pytest.approx(results[name], abs=1e-6), name


def test_metrics_equal_those_of_the_predictions(folder):
    rows = [json.loads(line) for line in (folder / "valid.jsonl").open()]
    predictions = load(str(folder / "class")).predict([row["text"] for row in rows])
    shares = np.array([[row["probabilities"][name] for name in CLASSES] for row in predictions])
    labels = np.array([CLASSES.index(row["class"]) for row in rows])
    wanted = classification_metrics(labels, shares)
    wanted["loss"] = -np.mean(np.log(shares[np.arange(len(labels)), labels]))
    found = evaluate(str(folder / "class"), str(folder / "valid.jsonl"))
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, abs=1e-6)


def test_rows_that_cannot_be_evaluated_are_errors(folder, tmp_path):
    (tmp_path / "rows.tsv").write_text("text\tclass\na film\tgod\n")
    with pytest.raises(UserError, match=r"'god' at .*rows.tsv, line 2.*Did you mean good"):
        evaluate(str(folder / "class"), str(tmp_path / "rows.tsv"))
    (tmp_path / "none.tsv").write_text("text\tclass\n")
    with pytest.raises(UserError, match="at least one row"):
        evaluate(str(folder / "class"), str(tmp_path / "none.tsv"))
    (tmp_path / "other.tsv").write_text("words\tkind\na good film\tgood\n")
    with pytest.raises(UserError, match="text"):
        evaluate(str(folder / "class"), str(tmp_path / "other.tsv"))
    found = evaluate(str(folder / "class"), str(tmp_path / "other.tsv"), text="words", label="kind")
    assert found["examples"] == 1


def test_the_order_of_the_rows_changes_nothing(folder, tmp_path):
    lines = (folder / "valid.jsonl").read_text().splitlines()
    (tmp_path / "turned.jsonl").write_text("\n".join(reversed(lines)))
    first = evaluate(str(folder / "class"), str(folder / "valid.jsonl"))
    turned = evaluate(str(folder / "class"), str(tmp_path / "turned.jsonl"), 7)
    assert metrics_among(first) == pytest.approx(metrics_among(turned), abs=1e-6)
    assert first["confusion"] == turned["confusion"]


def test_rows_that_are_skipped_are_counted(folder, tmp_path):
    (tmp_path / "rows.jsonl").write_text((folder / "valid.jsonl").read_text() + "no JSON\n")
    found = evaluate(str(folder / "class"), str(tmp_path / "rows.jsonl"), on_bad_text="skip")
    assert (found["examples"], found["skipped"]) == (37, 1)


def test_files_of_another_encoding_are_read_with_the_option(folder, tmp_path):
    row = {"text": "déjà good", "class": "good"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row, ensure_ascii=False), encoding="latin-1")
    path = str(tmp_path / "rows.jsonl")
    with pytest.raises(UserError, match="set data.encoding"):
        evaluate(str(folder / "class"), path)
    assert evaluate(str(folder / "class"), path, encoding="latin-1")["examples"] == 1


@pytest.mark.slow
def test_each_of_several_seeds_is_evaluated(folder, tmp_path):
    config = finetuning_defaults()
    config.update_from_flattened_dict(
        {
            "data.train": str(folder / "train.jsonl"),
            "data.text": "text",
            "data.label": "class",
            "data.length": 24,
            "data.vocab_size": 100,
            "train.steps": 5,
            "train.batch_size": 8,
            "train.seeds": 2,
            "eval.report": False,
        }
    )
    results = finetune(config, workdir=str(tmp_path / "run"))
    data = str(folder / "valid.jsonl")
    found = evaluate(str(tmp_path / "run"), data)
    alone = [evaluate(str(tmp_path / "run" / run["run"]), data) for run in results["runs"]]
    assert [run["seed"] for run in found["runs"]] == [0, 1]
    for name in ("accuracy", "f1_macro", "loss"):
        first, second = (one[name] for one in alone)
        assert [run[name] for run in found["runs"]] == [first, second]
        assert found[name] == pytest.approx((first + second) / 2)
        half = 12.706204736 * abs(first - second) / 2  # t of one degree of freedom
        assert found[f"{name}_interval"] == pytest.approx(half, abs=1e-9)
    assert found["classes"]["good"]["f1"] == pytest.approx(
        sum(one["classes"]["good"]["f1"] for one in alone) / 2
    )
    out = run(
        [
            sys.executable,
            "-m",
            "finetune.evaluate",
            f"--workdir={tmp_path / 'run'}",
            f"--data={data}",
        ],
        ROOT,
    )
    assert f"accuracy {found['accuracy']:.4f} ± {found['accuracy_interval']:.4f}" in out
    assert [line.split()[0] for line in out.splitlines()[-5:]] == [*CLASSES, "macro", "micro"]
