"""Runs of the finetuning job whose data and weights are chosen by its fields."""

import json
import sys

import numpy as np
import pytest
from sklearn.metrics import matthews_corrcoef

from keras_attn import finetune, load
from keras_attn.convert import read
from keras_attn.defaults import fields, finetuning_defaults
from keras_attn.errors import UserError
from keras_attn.inference.evaluate import evaluate
from tests.support.environments import ROOT, run

pytestmark = pytest.mark.runs

WORDS = ("good", "bad", "awful")


def _config(folder, counts=(40, 20, 10), **fields):
    rows = [
        {"text": f"{WORDS[label]} {'film ' * (number % 5)}{number}", "label": WORDS[label]}
        for label, count in enumerate(counts)
        for number in range(count)
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = finetuning_defaults()
    config.update_from_flattened_dict(
        {
            "data.train": str(folder / "rows.jsonl"),
            "data.text": "text",
            "data.label": "label",
            "data.length": 16,
            "data.vocab_size": 100,
            "train.steps": 4,
            "train.batch_size": 8,
            "train.learning_rate": 0.01,
            "eval.report": False,
            **fields,
        }
    )
    return config


def test_without_validation_data_rows_are_held_out(tmp_path, capsys):
    results = finetune(_config(tmp_path, **{"data.holdout": 0.2}), workdir=str(tmp_path / "run"))
    said = capsys.readouterr().out
    assert "56 training rows: awful 8, bad 16, good 32" in said
    assert "14 validation rows: awful 2, bad 4, good 8" in said
    assert "tokens per row: median" in said
    assert 0 <= results["accuracy"] <= 1


def test_the_rows_that_are_cut_are_counted(tmp_path, capsys):
    path = tmp_path / "long.jsonl"
    config = _config(tmp_path, **{"data.length": 5, "data.train": str(path), "data.holdout": 0.0})
    rows = [{"text": " ".join("abcdefg"[:n]), "label": "xy"[n % 2]} for n in (1, 2, 3, 6, 7)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    finetune(config, workdir=str(tmp_path / "run"), dry_run=True)
    said = capsys.readouterr().out  # beside a text of 3 tokens fit [CLS] and [SEP]
    assert (
        "tokens per row: median 5, 95 % up to 9, longest 9 · 2 rows truncated to 5 tokens" in said
    )


def test_a_seed_gives_the_same_number(tmp_path):
    config = _config(tmp_path, **{"data.holdout": 0.2})
    one, other = (finetune(config, workdir=str(tmp_path / name)) for name in ("one", "other"))
    for name in ("weights_sha256", "accuracy", "loss"):
        assert one[name] == other[name]


@pytest.mark.slow
def test_another_number_of_cores_gives_the_same_batches(tmp_path):
    config = _config(tmp_path, **{"data.holdout": 0.2})
    program = (
        "import os, sys\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from finetune.__main__ import command\ncommand()"
    )
    given = [f"--config.{name}={value}" for name, value in fields(config) if value is not None]
    run([sys.executable, "-c", program, f"--workdir={tmp_path / 'core'}", *given], ROOT)
    wanted = finetune(config, workdir=str(tmp_path / "all"))
    found = json.loads((tmp_path / "core/results.json").read_text())
    for name in ("accuracy", "loss"):
        assert found[name] == pytest.approx(wanted[name], abs=1e-4)
    assert found["data_sha256"] == wanted["data_sha256"]


def test_fewer_rows_than_a_batch_are_reported(tmp_path, capsys):
    for size in (13, 14):
        finetune(
            _config(
                tmp_path,
                (8, 5),
                **{"data.holdout": 0.0, "train.batch_size": size, "train.steps": 1},
            ),
            workdir=str(tmp_path / f"{size}"),
        )
        assert ("Lower train.batch_size" in capsys.readouterr().out) == (size == 14)


@pytest.mark.parametrize(
    "rows, warnings",
    [
        (
            [
                ("good film", "good"),
                ("Good  film", "bad"),
                (" ", "good"),
                ("", "good"),
                ('"a ""good"" film"', "good"),
                ("a", "fair"),
                ("b", "1"),
                ("c", "2"),
                ("d", "3"),
                ("e", "4"),
                ("f", "5"),
            ],
            [
                "7 labels occur only once in 11 rows",
                "2 training rows have no text",
                "1 training text occurs with different labels",
                "1 text is in quotes. In TSV",
            ],
        ),
        ([("a", "good"), ('a "good" film', "bad")] * 2, []),
    ],
)
def test_rows_that_look_wrong_are_reported(tmp_path, capsys, rows, warnings):
    config = _config(
        tmp_path,
        **{
            "data.holdout": 0.0,
            "train.steps": 1,
            "train.batch_size": 2,
            "data.train": str(tmp_path / "rows.tsv"),
        },
    )
    lines = ["text\tlabel\n", *(f"{text}\t{label}\n" for text, label in rows)]
    (tmp_path / "rows.tsv").write_text("".join(lines))
    finetune(config, workdir=str(tmp_path / "run"))
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning")]
    assert len(said) == len(warnings)
    assert all(warning in line for warning, line in zip(warnings, said, strict=True))


def test_rows_in_both_splits_are_reported(tmp_path, capsys):
    config = _config(tmp_path, **{"data.validation": str(tmp_path / "rows.jsonl")})
    finetune(config, workdir=str(tmp_path / "run"))
    assert "70 validation rows are also training rows" in capsys.readouterr().out


def test_the_best_weights_are_those_that_predict(tmp_path):
    # A rate that wrecks the model: the first evaluation is the best.
    config = _config(
        tmp_path,
        **{
            "train.steps": 12,
            "train.learning_rate": 3.0,
            "train.schedule": "constant",
            "eval.every": 1,
            "eval.metric": "loss",
            "eval.patience": 3,
            "checkpoint.every": 1,
            "checkpoint.keep": 20,
        },
    )
    results = finetune(config, workdir=str(tmp_path / "run"))
    records = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").open()]
    losses = [record["validation_loss"] for record in records]
    best = int(np.argmin(losses))
    assert best < len(losses) - 1 == best + 3
    assert results["loss"] == pytest.approx(losses[best], rel=1e-6)
    assert (results["best_step"], results["steps"]) == (best + 1, len(losses))
    with np.load(tmp_path / f"run/checkpoints/step-{best + 1}.npz") as saved:
        name = "bert_encoder/token_embedding"
        np.testing.assert_array_equal(
            read(str(tmp_path / "run")).weights[name], saved[f"model/bert_classifier/{name}"]
        )
    predicted = load(str(tmp_path / "run")).predict(["good film", "bad film"])
    assert len(predicted) == 2


def test_frozen_layers_stay(tmp_path):
    fields = {"train.steps": 3, "train.weight_decay": 0.1}
    start = str(tmp_path / "start")
    finetune(_config(tmp_path, **fields), workdir=start)
    finetune(
        _config(tmp_path, **fields, **{"train.freeze": 1}),
        pretrained=start,
        workdir=str(tmp_path / "run"),
    )
    old, new = (dict(read(path).weights) for path in (start, str(tmp_path / "run")))
    same = {path for path in old if np.array_equal(old[path], new[path])}
    below = ("_embedding", "bert_encoder/norm/", "/layer_0/")
    assert same == {path for path in old if any(part in path for part in below)}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"eval.metric": "acuracy"}, "Did you mean accuracy"),
        ({"eval.metric": "pearson"}, "accuracy, f1_macro, loss"),
        ({"eval.patience": 0}, "eval.patience=0"),
        ({"eval.patience": 2, "eval.every": 0}, "eval.every=0"),
        ({"eval.metric": "accuracy", "data.holdout": 0.0}, "data.validation or data.holdout"),
        ({"train.freeze": 3}, r"\[0, 2\]"),
        ({"train.freeze": 1}, "--pretrained"),
        ({"train.layer_decay": 0.0}, r"\(0, 1\]"),
        ({"data.holdout": 1.5}, "data.holdout"),
        ({"train.class_weights": True, "data.regression": True}, "requires single labels"),
    ],
)
def test_invalid_fields_are_errors_before_any_work(tmp_path, fields, message):
    with pytest.raises(UserError, match=message):
        finetune(_config(tmp_path, **fields), workdir=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_rare_classes_count_as_much_as_others_with_class_weights(tmp_path):
    """From uninformative texts, only the class frequencies can be learned."""
    rows = [
        {"text": "the same", "label": "rare" if number % 10 == 0 else "usual"}
        for number in range(100)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = {}
    for weighted in (False, True):
        config = finetuning_defaults()
        config.update_from_flattened_dict(
            {
                "data.train": str(tmp_path / "rows.jsonl"),
                "data.text": "text",
                "data.label": "label",
                "data.length": 8,
                "data.vocab_size": 100,
                "data.holdout": 0.0,
                "train.steps": 120,
                "train.batch_size": 20,
                "train.learning_rate": 0.003,
                "train.class_weights": weighted,
                "model.dropout": 0.0,
            }
        )
        finetune(config, workdir=str(tmp_path / str(weighted)))
        found[weighted] = load(str(tmp_path / str(weighted))).predict(["the same"])[0][
            "probabilities"
        ]["rare"]
    assert found[False] == pytest.approx(0.1, abs=0.06)
    assert found[True] == pytest.approx(0.5, abs=0.15)


@pytest.mark.slow
def test_lower_layers_are_trained_more_slowly_with_layer_decay(tmp_path):
    finetune(_config(tmp_path), workdir=str(tmp_path / "start"))
    config = _config(
        tmp_path, **{"train.layer_decay": 0.01, "train.steps": 2, "train.weight_decay": 0.0}
    )
    finetune(config, pretrained=str(tmp_path / "start"), workdir=str(tmp_path / "run"))
    old, new = (dict(read(str(tmp_path / name)).weights) for name in ("start", "run"))
    lower, upper = (
        max(
            np.abs(new[path] - old[path]).max()
            for path in old
            if f"/{layer}/" in path and path.endswith("kernel")
        )
        for layer in ("layer_0", "layer_1")
    )
    # AdamW's first updates are about as large as the rate.
    assert lower == pytest.approx(0.01 * upper, rel=0.5)


def test_another_metric_of_the_kind_may_choose(tmp_path):
    config = _config(tmp_path, **{"eval.metric": "matthews", "eval.every": 2})
    results = finetune(config, workdir=str(tmp_path / "run"))
    assert {"accuracy", "f1_macro", "matthews"} <= set(results)
    found = evaluate(str(tmp_path / "run"), str(tmp_path / "rows.jsonl"))
    labels = [json.loads(line) for line in (tmp_path / "rows.jsonl").open()]
    predictions = load(str(tmp_path / "run")).predict([row["text"] for row in labels])
    assert found["matthews"] == pytest.approx(
        matthews_corrcoef([row["label"] for row in labels], [one["label"] for one in predictions])
    )


def test_f1_is_that_of_the_positive_class(tmp_path, capsys):
    config = _config(tmp_path, (30, 40), **{"data.positive": "bad"})
    finetune(config, workdir=str(tmp_path / "run"))
    assert "the positive class of f1 is 'bad'" in capsys.readouterr().out
    (tmp_path / "bad.jsonl").write_text(json.dumps({"text": "bad", "label": "bad"}) + "\n")
    predicted = load(str(tmp_path / "run")).predict(["bad"])[0]["label"]
    assert evaluate(str(tmp_path / "run"), str(tmp_path / "bad.jsonl"))["f1"] == (
        predicted == "bad"
    )
    config.data.positive = "worse"
    with pytest.raises(UserError, match="data.positive must be one of the classes"):
        finetune(config, workdir=str(tmp_path / "other"))
