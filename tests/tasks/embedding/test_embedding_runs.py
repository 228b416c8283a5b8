"""Runs of embeddings: training, resuming, evaluation, export, conversion, search."""

import json

import numpy as np
import pytest
import tensorflow as tf

import keras_attn
from keras_attn import finetune, load
from keras_attn.defaults import default_config, finetuning_defaults
from keras_attn.errors import UserError
from keras_attn.export.saved_model import export
from keras_attn.inference.evaluate import evaluate

pytestmark = pytest.mark.runs
WORDS = ("ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen")


def made_up(count=64, seed=0):
    """Pairs of a text and its words in the other order, in upper-case; their score is 1."""
    random, rows = np.random.default_rng(seed), []
    for _ in range(count):
        words = [str(word) for word in random.choice(WORDS, 3)]
        other = [str(word) for word in random.choice(WORDS, 3)]
        shared = len({*words} & {*other}) / 3
        rows.append(
            {
                "text": " ".join(words),
                "same": " ".join(words[::-1]),
                "other": " ".join(other),
                "score": shared,
            }
        )
    return rows


def embedding_config(folder, family=None, **fields):
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in made_up()))
    config = default_config("embedding", family) if family else finetuning_defaults()
    config.update_from_flattened_dict(
        {
            "data.task": "embedding",
            "data.train": str(path),
            "data.validation": str(path),
            "data.text": "text",
            "data.text_pair": "same",
            "data.vocab_size": 90,
            "train.steps": 4,
            "train.batch_size": 16,
            "train.learning_rate": 0.003,
            **fields,
        }
    )
    if family:
        config.model.family = family
    return config


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    """The workdir of a model of pairs, its results and its config."""
    folder = tmp_path_factory.mktemp("embedder")
    fields = {"train.steps": 40, "model.projection": 24, "train.symmetric": True}
    config = embedding_config(folder, **fields)
    return folder / "run", finetune(config, workdir=str(folder / "run")), config


def test_pairs_are_found_and_the_same_call_resumes(embedder):
    workdir, results, config = embedder
    # Texts of the same words in another order tie, as the model has hardly learned the order.
    assert (
        results["mrr"] > max(0.65, results["to_beat"]["mrr"])
        and {"recall_at_1", "recall_at_10", "loss"} <= results.keys()
    )
    assert results["to_beat"]["mrr"] > 0
    assert "Pairs with the largest errors" in (workdir / "report.html").read_text()
    again = finetune(config, workdir=str(workdir))
    assert again["weights_sha256"] == results["weights_sha256"]


def test_embeddings_are_searched_evaluated_and_exported(embedder, tmp_path):
    workdir, results, config = embedder
    model = load(str(workdir))
    documents = [row["same"] for row in made_up()]
    vectors = model.embed(documents)
    assert vectors.shape == (64, 24)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    similarities = model.similarity(["ant bee cat"], documents)
    np.testing.assert_allclose(similarities, model.embed(["ant bee cat"]) @ vectors.T, atol=1e-5)
    (found,) = model.search(["ant bee cat"], documents, top_k=3)
    best = np.argsort(-similarities[0], kind="stable")[:3]
    assert [row["index"] for row in found] == best.tolist()
    assert [row["text"] for row in found] == [documents[n] for n in best]
    assert evaluate(str(workdir), config.data.train)["mrr"] == pytest.approx(results["mrr"])
    export(str(workdir), str(tmp_path / "exported"))
    served = tf.saved_model.load(str(tmp_path / "exported"))
    outputs = served.signatures["serving_default"](text=tf.constant(documents[:3]))
    np.testing.assert_allclose(outputs["embedding"], vectors[:3], atol=1e-5)
    with pytest.raises(UserError, match="top_k must be a positive integer"):
        model.search(["x"], documents, top_k=0)


def test_the_model_is_written_for_sentence_transformers_and_trained_on(embedder, tmp_path):
    workdir, _, _ = embedder
    keras_attn.convert(str(workdir), str(tmp_path / "other"), format="sentence_transformers")
    texts = ["ant bee cat", "gnu"]
    wanted = load(str(workdir)).embed(texts)
    np.testing.assert_allclose(load(str(tmp_path / "other")).embed(texts), wanted, atol=1e-6)
    config = embedding_config(
        tmp_path, **{"pretrained": str(tmp_path / "other"), "train.learning_rate": 1e-9}
    )
    finetune(config, workdir=str(tmp_path / "again"))
    np.testing.assert_allclose(load(str(tmp_path / "again")).embed(texts), wanted, atol=1e-4)


@pytest.mark.parametrize(
    "fields, metric",
    [
        ({"data.text_pair": "other", "data.label": "score"}, "spearman"),
        ({"data.text_pair": "other", "data.label": "score", "train.loss": "cosine"}, "pearson"),
        ({"data.negative": "other", "train.loss": "triplet"}, "mrr"),
        ({"data.negative": "other", "model.pooling": "cls"}, "recall_at_1"),
        ({"data.text_pair": None}, "loss"),
    ],
    ids=["cosent", "cosine", "triplet", "negatives", "single"],
)
def test_every_kind_of_groups_trains(tmp_path, fields, metric):
    config = embedding_config(tmp_path, **fields, **{"train.steps": 30, "eval.every": 10})
    results = finetune(config, workdir=str(tmp_path / "run"))
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    losses = [record["loss"] for record in map(json.loads, lines) if "loss" in record]
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    assert np.isfinite(results[metric])


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"train.batch_size": 1}, "compares the rows of a batch"),
        ({"data.text_pair": None, "model.dropout": 0.0}, "different dropout masks"),
        (
            {"data.label": "number", "train.loss": "cosine"},
            "scores from -1 to 1.*scores from 0 to 63",
        ),
    ],
)
def test_data_that_cannot_be_learnt_are_an_error(tmp_path, fields, message):
    config = embedding_config(tmp_path, **fields)
    rows = [{**row, "number": n} for n, row in enumerate(made_up())]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UserError, match=message):
        finetune(config, workdir=str(tmp_path / "run"))


def test_a_new_projection_replaces_that_of_the_pretrained_model(embedder, tmp_path, capsys):
    workdir, _, _ = embedder
    config = embedding_config(
        tmp_path, **{"pretrained": str(workdir), "model.projection": 5, "train.steps": 1}
    )
    finetune(config, workdir=str(tmp_path / "run"))
    assert "not used of pretrained: pooling=mean, dense 24" in capsys.readouterr().out
    assert load(str(tmp_path / "run")).embed(["ant"]).shape == (1, 5)


def test_micro_batches_change_nothing_but_rounding(tmp_path):
    found = {}
    for accumulate in (1, 4):
        config = embedding_config(
            tmp_path, **{"train.accumulate": accumulate, "model.dropout": 0.0, "train.steps": 6}
        )
        found[accumulate] = finetune(config, workdir=str(tmp_path / f"{accumulate}"))
    for name in ("loss", "mrr"):
        assert found[4][name] == pytest.approx(found[1][name], rel=1e-3)


@pytest.mark.parametrize("family", ["attentive_lstm", "hierarchical"])
def test_other_families_are_trained(tmp_path, family):
    config = embedding_config(tmp_path, family, **{"train.steps": 30, "model.hidden_dim": 16})
    finetune(config, workdir=str(tmp_path / "run"))
    assert load(str(tmp_path / "run")).embed(["ant", "bee bee"]).shape == (2, 16)
