"""Classifiers with a GPT-2 or an XLNet."""

import csv
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn import finetune, load, pretrain
from keras_attn.data.text_examples import TextExamples
from keras_attn.defaults import (
    finetuning_defaults,
    language_modeling_defaults,
    permutation_modeling_defaults,
)
from keras_attn.errors import UserError
from keras_attn.export.saved_model import export
from keras_attn.inference.evaluate import evaluate
from keras_attn.inference.predict_files import predict_file
from keras_attn.tasks.finetuning.seed_statistics import metrics_among

pytestmark = pytest.mark.runs
DEFAULTS = {"gpt2": language_modeling_defaults, "xlnet": permutation_modeling_defaults}
FAMILIES = list(DEFAULTS)
CLASSES = ("bad", "fair", "good")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny model of each family, a classifier, a classifier of pairs, and their rows."""
    folder = tmp_path_factory.mktemp("families")
    random = np.random.default_rng(0)
    rows = {
        split: [
            {
                "text": f"{CLASSES[k]} " * random.integers(1, 5) + f"film {n}",
                "other": f"film {n % 3}",
                "class": CLASSES[k],
            }
            for n, k in enumerate(random.integers(0, 3, count).tolist())
        ]
        for split, count in {"train": 90, "valid": 31}.items()
    }
    for split, found in rows.items():
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
    (folder / "text.txt").write_text("\n\n".join(row["text"] for row in rows["train"]) + "\n")
    for name, defaults in DEFAULTS.items():
        config = defaults()
        config.update_from_flattened_dict(
            {
                "data.train": str(folder / "text.txt"),
                "data.format": "lines",
                "data.length": 32,
                "data.vocab_size": {"gpt2": 270, "xlnet": 60}[name],
                "train.steps": 2,
                "train.batch_size": 8,
                "model.num_layers": 1,
                "model.hidden_dim": 32,
                "model.num_heads": 2,
            }
        )
        pretrain(config, workdir=str(folder / name))
        finetune(_config(folder, name), workdir=str(folder / f"{name}-class"))
        finetune(
            _config(folder, name, **{"data.text_pair": "other", "train.steps": 2}),
            workdir=str(folder / f"{name}-pairs"),
        )
    return folder


def _config(folder, name, **fields):
    config = finetuning_defaults()
    config.update_from_flattened_dict(
        {
            "pretrained": str(folder / name),
            "data.train": str(folder / "train.jsonl"),
            "data.validation": str(folder / "valid.jsonl"),
            "data.text": "text",
            "data.label": "class",
            "data.length": 32,
            "train.steps": 60,
            "train.batch_size": 16,
            "train.learning_rate": 0.01,
            "eval.report": False,
            **fields,
        }
    )
    return config


@pytest.mark.parametrize("name", FAMILIES)
def test_a_classifier_learns_predicts_and_evaluates(folder, tmp_path, name):
    workdir = str(folder / f"{name}-class")
    results = json.loads((folder / f"{name}-class" / "results.json").read_text())
    assert results["accuracy"] > 0.9
    data = str(folder / "valid.jsonl")
    for batch_size in (1, 7, 64):
        found = evaluate(workdir, data, batch_size)
        for metric, value in metrics_among(found).items():
            assert value == pytest.approx(results[metric], abs=1e-6)
    predict_file(workdir, data, str(tmp_path / "out.csv"))
    rows = [json.loads(line) for line in (folder / "valid.jsonl").open()]
    with (tmp_path / "out.csv").open() as file:
        found = [row["label"] for row in csv.DictReader(file)]
    right = np.mean([label == row["class"] for label, row in zip(found, rows, strict=True)])
    assert right == pytest.approx(results["accuracy"])


@pytest.mark.parametrize("run", ["class", "pairs"])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_prediction_equals_that_of_a_row_built_by_hand(folder, name, run):
    model = load(str(folder / f"{name}-{run}"))
    texts, pairs = ["good film", "", "a bad bad film 7"], ["film 1", "film", ""]
    found = model.probabilities(texts, pairs if run == "pairs" else None)
    special_tokens = {
        "gpt2": lambda t: ([t.end_id], [t.end_id]),
        "xlnet": lambda t: ([t.sep_id], [t.sep_id, t.cls_id]),
    }[name]
    between, after = special_tokens(model.tokenizer)
    for text, pair, shares in zip(texts, pairs, found, strict=True):
        ids = model.tokenizer.encode([text])[0].tolist()
        segments = [0] * len(ids)
        if run == "pairs":
            second = model.tokenizer.encode([pair])[0].tolist()
            ids += between + second
            segments += [0] * len(between) + [1] * len(second)
        ids += after
        segments += [int(run == "pairs")] * len(after)
        segments[-1] = 2
        batch = {"token_ids": np.array([ids]), "segment_ids": np.array([segments])}
        if name == "gpt2":
            del batch["segment_ids"]
        logits = np.asarray(model.model(batch)["logits"], np.float64)[0]
        wanted = np.exp(logits - logits.max())
        np.testing.assert_allclose(shares, wanted / wanted.sum(), atol=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_rows_are_truncated_before_their_special_tokens(folder, name):
    tokenizer = load(str(folder / f"{name}-class")).tokenizer
    text = "good bad fair film " * 9
    batch = TextExamples(
        [text], [text], None, tokenizer, length=21, batch_size=1, shuffle=False
    ).batch(0)
    after = tokenizer.row_layout.after
    assert batch["padding_mask"].all() and batch["token_ids"].shape == (1, 21)
    assert batch["token_ids"][0, -len(after) :].tolist() == list(after)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_a_run_resumes_from_its_weights(folder, tmp_path, name):
    def run(place, **fields):
        config = _config(
            folder, name, **{"train.schedule": "constant", "train.warmup_fraction": 0.0, **fields}
        )
        return finetune(config, workdir=str(tmp_path / place))

    whole = run("whole", **{"train.steps": 8})
    run("parts", **{"train.steps": 4})
    parts = run("parts", **{"train.steps": 8})
    assert parts["weights_sha256"] == whole["weights_sha256"]
    assert metrics_among(parts) == metrics_among(whole)
    again = finetune(
        _config(
            folder,
            name,
            **{
                "pretrained": str(tmp_path / "whole"),
                "train.steps": 1,
                "train.learning_rate": 1e-9,
            },
        ),
        workdir=str(tmp_path / "again"),
    )
    assert again["accuracy"] == pytest.approx(whole["accuracy"])


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_a_folder_of_several_seeds_predicts(folder, tmp_path, name):
    results = finetune(
        _config(folder, name, **{"train.seeds": 2, "train.steps": 2}),
        workdir=str(tmp_path / "runs"),
    )
    texts = ["good film", "bad film"]
    best = load(str(tmp_path / "runs" / results["best_run"]))
    assert load(str(tmp_path / "runs")).predict(texts) == best.predict(texts)
    assert len(evaluate(str(tmp_path / "runs"), str(folder / "valid.jsonl"))["runs"]) == 2


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"data.pack": 2}, "data.pack must be 1"),
        ({"model.size": "tiny"}, "model.size must be left out"),
        ({"data.lowercase": True}, "data.lowercase=True differs from"),
        ({"train.freeze": 9}, "train.freeze must be in"),
        ({"data.vocab": "vocab.txt"}, "data.vocab must be left out"),
        (
            {"data.task": "reading_comprehension", "data.text": None, "data.label": None},
            "must be a model of BERT. Received",
        ),
    ],
)
@pytest.mark.parametrize("name", FAMILIES)
def test_unsupported_fields_are_errors(folder, tmp_path, name, fields, message):
    with pytest.raises(UserError, match=message):
        finetune(_config(folder, name, **fields), workdir=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_run_without_a_checkpoint_requires_pretrained_again(folder, tmp_path, name):
    (tmp_path / "run").mkdir()
    text = (folder / f"{name}-class" / "config.json").read_text()
    (tmp_path / "run" / "config.json").write_text(text)
    with pytest.raises(UserError, match="--pretrained"):
        finetune(_config(folder, name, pretrained=None), workdir=str(tmp_path / "run"))


def test_position_embeddings_limit_the_rows_of_gpt2(folder, tmp_path):
    with pytest.raises(UserError, match="data.length=33 exceeds the model's 32 positions"):
        finetune(_config(folder, "gpt2", **{"data.length": 33}), workdir=str(tmp_path / "run"))


def test_an_exported_xlnet_predicts_the_same(folder, tmp_path):
    source, output = str(folder / "xlnet-class"), str(tmp_path / "served")
    export(source, output)
    texts = ["good film", "", "a bad, bad film " * 20]
    loaded = tf.saved_model.load(output)
    found = loaded.serve(tf.constant(texts))
    np.testing.assert_allclose(found["probabilities"], load(source).probabilities(texts), 1e-5)


@pytest.mark.parametrize("name", FAMILIES)
def test_unsupported_uses_are_errors(folder, name):
    model = load(str(folder / f"{name}-class"))
    with pytest.raises(UserError, match="for text generation only"):
        load(str(folder / f"{name}-class"), precision="bfloat16")
    assert model.embed(["good film"]).shape == (1, 32)
    with pytest.raises(UserError, match="pooling must not be cls"):
        model.embed(["good film"], pooling="cls")


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_two_devices_pretrain_like_one(folder, tmp_path, name):
    def run(strategy, **options):
        config = DEFAULTS[name]()
        config.update_from_flattened_dict(
            {
                "data.train": str(folder / "text.txt"),
                "data.validation": str(folder / "text.txt"),
                "data.format": "lines",
                "data.length": 16,
                "data.vocab": str(folder / name),
                "train.steps": 6,
                "train.batch_size": 8,
                "train.accumulate": 2,
                "train.learning_rate": 0.01,
                "model.num_layers": 2,
                "model.hidden_dim": 32,
                "model.num_heads": 2,
            }
        )
        if name == "xlnet":
            config.update_from_flattened_dict(
                {"data.bidirectional": True, "model.memory_length": 8}
            )
        workdir = tmp_path / strategy
        results = pretrain(config, workdir=str(workdir), strategy=strategy, **options)
        lines = (workdir / "metrics.jsonl").read_text().splitlines()
        losses = [json.loads(line)["loss"] for line in lines]
        weights = keras.saving.load_model(workdir / "model.keras").get_weights()
        assert len(losses) == 6
        return losses, weights, metrics_among(results)

    losses, weights, metrics = run("one_device")
    two = run("mirrored", virtual_devices=2)
    np.testing.assert_allclose(two[0], losses, rtol=1e-5)
    for found, expected in zip(two[1], weights, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert two[2] == pytest.approx(metrics, rel=1e-5)
