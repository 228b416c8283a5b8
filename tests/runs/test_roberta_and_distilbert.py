"""RoBERTa and DistilBERT, pretrained from scratch, finetuned on pairs of texts, and exported."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_attn import convert, finetune, load, pretrain
from keras_attn.defaults import (
    default_config,
    pretraining_defaults,
    select_family,
)
from keras_attn.errors import UserError
from keras_attn.export.saved_model import export
from keras_attn.inference.evaluate import evaluate

pytestmark = pytest.mark.runs
FAMILIES = ("roberta", "distilbert")
CLASSES = ("bad", "fair", "good")
_SHORT = {
    "data.length": 32,
    "train.steps": 60,
    "train.batch_size": 16,
    "train.learning_rate": 0.01,
    "eval.report": False,
}
MASKS = {"roberta": "<mask>", "distilbert": "[MASK]"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny pretrained model of each family, a classifier of pairs, and their rows."""
    folder = tmp_path_factory.mktemp("families")
    random = np.random.default_rng(0)
    for split, count in {"train": 90, "valid": 31}.items():
        rows = [
            {
                "text": f"{CLASSES[k]} " * random.integers(1, 5) + f"film {n}",
                "other": f"Film {n % 3}",
                "class": CLASSES[k],
            }
            for n, k in enumerate(random.integers(0, 3, count).tolist())
        ]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{split}.jsonl").write_text(lines)
        texts = "".join(f"{row['text']}\n{row['other']}\n\n" for row in rows)
        (folder / f"{split}.txt").write_text(texts)
    for name in FAMILIES:
        pretrain(_pretraining(folder, name), workdir=str(folder / name))
        finetune(_finetuning(folder, name), workdir=str(folder / f"{name}-pairs"))
    return folder


def _pretraining(folder, name, **fields):
    config = pretraining_defaults()
    select_family(config, name)  # as --config.model.family
    config.update_from_flattened_dict(
        {
            "data.train": str(folder / "train.txt"),
            "data.validation": str(folder / "valid.txt"),
            "data.format": "lines",
            "data.length": 32,
            "data.vocab_size": 280,
            "train.steps": 30,
            "train.batch_size": 8,
            "model.num_layers": 1,
            "model.hidden_dim": 32,
            "model.num_heads": 2,
            "model.max_length": 40,
            **fields,
        }
    )
    return config


def _finetuning(folder, name, **fields):
    config = default_config("classification", name)
    config.update_from_flattened_dict(
        {
            "pretrained": str(folder / name),
            "data.train": str(folder / "train.jsonl"),
            "data.validation": str(folder / "valid.jsonl"),
            "data.text": "text",
            "data.text_pair": "other",
            "data.label": "class",
            "model.pooling": "cls",
            **_SHORT,
            **fields,
        }
    )
    return config


@pytest.mark.parametrize("name", FAMILIES)
def test_pretraining_has_rows_of_full_sentences_and_no_next_sentences(folder, name):
    results = json.loads((folder / name / "results.json").read_text())
    assert "mlm_accuracy" in results and "nsp_accuracy" not in results
    saved = json.loads((folder / name / "config.json").read_text())
    assert saved["config"]["data"]["segments"] == "full_sentences"
    assert saved["heads"]["next_sentence"] is False
    assert saved["architecture"]["num_segments"] == (name == "roberta")
    with pytest.raises(UserError, match="data.segments must be .*full_sentences"):
        pretrain(_pretraining(folder, name, **{"data.segments": "next_sentence"}))


def test_roberta_cannot_lowercase(folder, tmp_path):
    with pytest.raises(UserError, match="data.lowercase must be False .* of RoBERTa"):
        config = _pretraining(folder, "roberta", **{"data.lowercase": True})
        pretrain(config, workdir=str(tmp_path / "run"))


@pytest.mark.parametrize("name", FAMILIES)
def test_masked_tokens_are_predicted(folder, name):
    model, mask = load(str(folder / name)), MASKS[name]
    (best, *_) = model.fill_mask(f"good good {mask} 7", top=3)
    assert best["text"].startswith("good good") and best["text"].endswith(" 7")
    two = model.fill_mask([f"bad {mask} {mask}"])
    assert [len(found) for found in two[0]] == [5, 5]


def test_a_space_before_a_mask_of_roberta_belongs_to_it(folder):
    model, read = load(str(folder / "roberta")), []
    run = model._run
    model._run = lambda batch: read.append(batch["token_ids"][0].tolist()) or run(batch)
    tokens = model.tokenizer
    (found, *_) = model.fill_mask("good  <mask> film")
    ids = tokens.encode(["good", " film"])
    good, film = np.split(ids[0], ids[1][:-1])
    assert read[0] == [tokens.cls_id, *good, tokens.mask_id, *film, tokens.sep_id]
    expected = tokens.decode([[*good, tokens.ids[found["token"]], *film]])
    assert found["text"] == expected[0]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_classifier_of_pairs_learns_and_predicts_rows_built_by_hand(folder, name):
    workdir = str(folder / f"{name}-pairs")
    results = json.loads((folder / f"{name}-pairs" / "results.json").read_text())
    assert results["accuracy"] > 0.9
    assert evaluate(workdir, str(folder / "valid.jsonl"))["accuracy"] == results["accuracy"]
    model = load(workdir)
    tokens = model.tokenizer
    first, last = tokens.cls_id, tokens.sep_id
    between = [last] * (2 if name == "roberta" else 1)
    pairs = [("good film", "film 1"), ("", "film"), ("a bad bad film 7", "")]
    for (text, pair), shares in zip(
        pairs, model.probabilities(*zip(*pairs, strict=True)), strict=True
    ):
        ids = [tokens.encode([part])[0].tolist() for part in (text, pair)]
        row = [first, *ids[0], *between, *ids[1], last]
        logits = np.asarray(model.model({"token_ids": np.array([row])})["logits"], np.float64)[0]
        wanted = np.exp(logits - logits.max())
        np.testing.assert_allclose(shares, wanted / wanted.sum(), atol=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_an_exported_classifier_predicts_the_same(folder, tmp_path, name):
    source, output = str(folder / f"{name}-pairs"), str(tmp_path / "served")
    export(source, output)
    texts = ["good film", "", "It's a bad,  bad film 😀 " * 20]
    pairs = ["film 1", "film", "Film\n\n2"]
    loaded = tf.saved_model.load(output)
    found = loaded.serve(tf.constant(texts), tf.constant(pairs))
    np.testing.assert_allclose(
        found["probabilities"], load(source).probabilities(texts, pairs), 1e-5, 1e-6
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_a_finetuned_classifier_is_converted_to_transformers_and_back(folder, tmp_path, name):
    source = folder / f"{name}-pairs"
    convert.convert(source, tmp_path / "other", "huggingface")
    rows = [("good film", "film 1"), ("bad", "film")]
    texts, pairs = zip(*rows, strict=True)
    found, expected = (
        load(str(path)).probabilities(texts, pairs) for path in (tmp_path / "other", source)
    )
    np.testing.assert_array_equal(found, expected)
