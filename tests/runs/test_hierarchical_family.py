"""Hierarchical attention networks through the commands' functions."""

import json

import numpy as np
import pytest
import tensorflow as tf

import keras_attn
from keras_attn import finetune
from keras_attn.convert import read
from keras_attn.defaults import default_config
from keras_attn.errors import UserError
from keras_attn.export.saved_model import export
from keras_attn.inference.evaluate import evaluate
from keras_attn.visualize import attention_of_text
from tests.support.attention_page import unpacked
from tests.support.stopped_runs import stop_at_first_checkpoint

pytestmark = pytest.mark.runs
SENTENCES = ["the film is old.", "a new old song!", "is it a film?"]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Documents of two paragraphs, in which one sentence names their label."""
    path, random = tmp_path_factory.mktemp("documents") / "rows.jsonl", np.random.default_rng(0)
    with path.open("w") as file:
        for n in range(80):
            sentences = random.choice(SENTENCES, 3).tolist()
            word = ("good", "bad")[n % 2]
            sentences[random.integers(3)] = f"it is very {word}."
            text = sentences[0] + "\n\n" + " ".join(sentences[1:])
            labels = [word, "seen"] if n % 4 < 2 else [word]
            row = {"text": text, "label": word, "labels": labels, "score": n % 2 + 2.5}
            file.write(json.dumps(row) + "\n")
    return path


def config_of(rows, **fields):
    config = default_config("classification", "hierarchical")
    config.model.family = "hierarchical"
    config.train.epochs = None
    config.update_from_flattened_dict(
        {
            "data.train": str(rows),
            "data.text": "text",
            "data.label": "label",
            "data.vocab_size": 300,
            "model.hidden_dim": 16,
            "model.min_words": 4,
            "model.max_words": 12,
            "train.steps": 60,
            "train.learning_rate": 0.01,
            "eval.report": False,
            **fields,
        }
    )
    return config


@pytest.fixture(scope="module")
def run(rows, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("hierarchical") / "run"
    fields = {"model.levels": "gru,gru,none", "checkpoint.every": 30, "checkpoint.keep": 2}
    results = finetune(config_of(rows, **fields), workdir=str(workdir))
    assert results["accuracy"] == 1.0
    return workdir


TEXT = "is it a film? it is very bad.\n\na new old song!"


def test_the_ends_of_sentences_are_those_of_its_tokenizer(run):
    model = keras_attn.load(run)
    backbone, vocabulary = model.model.backbone, model.tokenizer.vocabulary
    tokens = [vocabulary[number] for number in backbone.sentence_ends]
    assert tokens == [".", "!", "?", "[SEP]"]
    assert [vocabulary[number] for number in backbone.paragraph_ends] == ["¶"]
    assert json.loads((run / "config.json").read_text())["architecture"]["levels"] == "gru,gru,none"


def test_a_trained_model_predicts_evaluates_and_exports(run, rows, tmp_path):
    model = keras_attn.load(run)
    texts = [TEXT, "it is very good.", ""]
    predicted = model.predict(texts)
    assert [row["label"] for row in predicted[:2]] == ["bad", "good"]
    assert evaluate(str(run), str(rows))["accuracy"] == 1.0
    export(str(run), str(tmp_path / "exported"))
    served = tf.saved_model.load(str(tmp_path / "exported"))
    found = served.signatures["serving_default"](text=tf.constant(texts))
    np.testing.assert_allclose(
        found["probabilities"].numpy().max(axis=1),
        [max(row["probabilities"].values()) for row in predicted],
        1e-4,
    )


def test_the_attention_page_has_every_level(run):
    found = unpacked(attention_of_text(keras_attn.load(run), TEXT))
    levels = ("pooling", "word", "sentence", "level_3")
    assert [name.split("/")[-1] for name in found] == [f"{name}_attention" for name in levels]
    _, tokens, weights = found["hierarchical_encoder/word_attention"]
    end = tokens.index("?") + 1
    assert "¶" in tokens and tokens[0] == "[CLS]"
    np.testing.assert_allclose(weights[0, 0, :end].sum(), 1, atol=0.03)


def test_resuming_and_repeating_change_no_bit(run, rows, tmp_path):
    fields = {"model.levels": "gru,gru,none", "checkpoint.every": 30, "checkpoint.keep": 2}
    whole = json.loads((run / "results.json").read_text())
    part = tmp_path / "part"
    stop_at_first_checkpoint(finetune, config_of(rows, **fields), part)
    resumed = finetune(config_of(rows, **fields), workdir=str(part))
    assert resumed["weights_sha256"] == whole["weights_sha256"]


@pytest.mark.parametrize(
    ("task", "label", "levels", "metric"),
    [
        ("multilabel", "labels", "gru,none", "f1_micro"),
        ("regression", "score", "none,gru", "pearson"),
    ],
)
def test_other_labels_are_learned_too(rows, tmp_path, task, label, levels, metric):
    fields = {"data.task": task, "data.label": label, "model.levels": levels}
    assert finetune(config_of(rows, **fields), workdir=str(tmp_path / "run"))[metric] > 0.7


def test_several_seeds_are_averaged(rows, tmp_path):
    config = config_of(rows, **{"train.seeds": 2, "train.steps": 2, "model.levels": "none,none"})
    results = finetune(config, workdir=str(tmp_path / "runs"))
    assert [run["seed"] for run in results["runs"]] == [0, 1]


def test_a_classifier_of_pairs_starts_from_another(run, rows, tmp_path):
    config = config_of(rows, **{"data.text_pair": "label", "train.steps": 2})
    config.pretrained, config.model.hidden_dim, config.model.min_words = str(run), None, 4
    finetune(config, workdir=str(tmp_path / "pairs"))
    assert read(tmp_path / "pairs").architecture["levels"] == "gru,gru,none"


def test_packing_is_refused(rows, tmp_path):
    with pytest.raises(UserError, match="data.pack must be 1"):
        finetune(config_of(rows, **{"data.pack": 2}), workdir=str(tmp_path / "run"))


def test_wrong_levels_are_an_error_of_the_config(rows, tmp_path):
    with pytest.raises(UserError, match="levels must be two or more of gru and none"):
        finetune(config_of(rows, **{"model.levels": "gru"}), workdir=str(tmp_path / "run"))
