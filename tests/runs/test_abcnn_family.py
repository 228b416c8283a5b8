"""ABCNN through the commands' functions: train on pairs, resume, load, predict, export."""

import csv
import functools

import numpy as np
import pytest
import tensorflow as tf

import keras_attn
from keras_attn import finetune
from keras_attn.defaults import default_config
from keras_attn.errors import UserError
from keras_attn.export.saved_model import export
from keras_attn.visualize import attention_of_text
from tests.support.attention_page import unpacked
from tests.support.stopped_runs import stop_at_first_checkpoint

pytestmark = pytest.mark.runs

WORDS = ["old", "new", "film", "story", "song", "book", "city", "river"]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """A CSV file of pairs: whether the second text is the first one, and how many words agree."""
    path, random = tmp_path_factory.mktemp("pairs") / "pairs.csv", np.random.default_rng(0)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["first", "second", "label", "score", "labels"])
        for number in range(160):
            first, other = (random.choice(WORDS, random.integers(3, 6)) for _ in range(2))
            second = first if number % 2 else other
            agree = len(set(first) & set(second))
            label = "same" if number % 2 else "different"
            labels = ",".join(word for word in ("film", "song") if word in second)
            writer.writerow([" ".join(first), " ".join(second), label, agree, labels])
    return str(path)


def config_of(pairs, **fields):
    config = default_config("classification", "abcnn")
    config.model.family = "abcnn"
    config.train.epochs = None
    config.update_from_flattened_dict(
        {
            "data.train": pairs,
            "data.text": "first",
            "data.text_pair": "second",
            "data.label": "label",
            "data.vocab_size": 200,
            "model.hidden_dim": 16,
            "train.steps": 4,
            **fields,
        }
    )
    return config


@pytest.fixture(scope="module")
def trained(pairs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    fields = {"train.steps": 120, "train.learning_rate": 0.01, "checkpoint.every": 60}
    results = finetune(config_of(pairs, **fields), workdir=str(folder))
    return folder, results, functools.partial(config_of, pairs, **fields)


def test_it_learns_whether_two_texts_are_equal(trained):
    folder, results, _ = trained
    assert results["accuracy"] > 0.9
    model = keras_attn.load(folder)
    assert model.model.backbone.variant == 3 and model.model.pooling == "pooled"
    rows = [("old film city", "old film city"), ("old film city", "river song story")]
    assert [row["label"] for row in model.predict(rows)] == ["same", "different"]
    apart = [model.predict([row])[0]["probabilities"]["same"] for row in rows]
    together = [row["probabilities"]["same"] for row in model.predict(rows)]
    np.testing.assert_allclose(apart, together, 1e-4, 1e-6)


def test_a_resumed_run_has_the_same_weights(trained, tmp_path):
    _, results, config = trained
    stop_at_first_checkpoint(finetune, config(), tmp_path)
    resumed = finetune(config(), workdir=str(tmp_path))
    assert resumed["weights_sha256"] == results["weights_sha256"]


def test_an_exported_model_takes_pairs(trained, tmp_path):
    folder, *_ = trained
    export(str(folder), str(tmp_path / "exported"))
    served = tf.saved_model.load(str(tmp_path / "exported")).signatures["serving_default"]
    first, second = ["old film city", "new song"], ["old film city", ""]
    found = served(text=tf.constant(first), text_pair=tf.constant(second))
    expected = keras_attn.load(folder).probabilities(first, second)
    np.testing.assert_allclose(found["probabilities"].numpy(), expected, 1e-5, 1e-6)


def test_the_attention_page_shows_the_matches_of_the_two_texts(trained):
    folder, *_ = trained
    model = keras_attn.load(folder)
    page = unpacked(attention_of_text(model, "old film city", "new old film city"))
    attention, pooling = (
        next(page[name] for name in page if kind in name) for kind in ("attention", "pooling")
    )
    first, second, scores = attention
    assert "".join(first).replace("##", "") == "oldfilmcity"
    assert "".join(second).replace("##", "") == "newoldfilmcity"
    for row, token in enumerate(first):
        assert scores[0, row].argmax() == second.index(token)
    with pytest.raises(UserError, match="Both texts must have tokens. Received: old film / $"):
        attention_of_text(model, "old film", "")
    assert len(pooling[0]) == len(first) + model.model.backbone.width - 1


@pytest.mark.parametrize(
    "fields",
    [
        {"model.variant": 0, "data.task": "regression", "data.label": "score"},
        {"model.variant": 1, "data.task": "multilabel", "data.label": "labels"},
        {"model.variant": 2, "model.pooling": "mean", "model.num_layers": 2, "train.jit": True},
    ],
)
def test_every_kind_of_labels_trains(pairs, tmp_path, fields):
    results = finetune(config_of(pairs, **fields), workdir=str(tmp_path))
    assert np.isfinite(results["loss"])
    assert keras_attn.load(tmp_path).predict([("old film", "new film")])


def test_single_texts_are_refused_before_training(pairs, trained, tmp_path):
    with pytest.raises(UserError, match="ABCNN requires pairs of texts. Set data.text_pair"):
        finetune(config_of(pairs, **{"data.text_pair": None}), workdir=str(tmp_path))
    model = keras_attn.load(trained[0])
    with pytest.raises(UserError, match="takes pairs"):
        model.predict(["old film"])
    with pytest.raises(UserError, match="encodes pairs of texts and has no embeddings"):
        model.embed(["old film"])


def test_rows_are_truncated_to_the_positions_of_the_attention(pairs, tmp_path):
    with pytest.raises(UserError, match="data.length=9 exceeds the model's 8 positions"):
        finetune(
            config_of(pairs, **{"model.max_length": 8, "data.length": 9}), workdir=str(tmp_path)
        )
    finetune(config_of(pairs, **{"model.max_length": 8}), workdir=str(tmp_path))
    assert keras_attn.load(tmp_path).length == 8
