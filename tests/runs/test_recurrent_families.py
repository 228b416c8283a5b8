"""Recurrent families through the commands' functions: train, resume, load, predict, export."""

import json

import numpy as np
import pytest
import tensorflow as tf

import keras_attn
from keras_attn import finetune, pretrain
from keras_attn.defaults import default_config
from keras_attn.errors import UserError
from keras_attn.export.saved_model import export
from tests.support.attention_page import unpacked
from tests.support.squad_files import made_up, write
from tests.support.stopped_runs import stop_at_first_checkpoint

pytestmark = pytest.mark.runs
QUESTION = "Who sells eggs?"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Labeled rows whose label is one of their words, plain text, and aligned sentences."""
    folder, random = tmp_path_factory.mktemp("recurrent"), np.random.default_rng(0)
    words = ["good", "bad", "old", "new", "film", "story", "song"]
    rows = [
        {"text": " ".join(random.choice(words[2:], 4)) + f" {words[n % 2]}", "label": words[n % 2]}
        for n in range(80)
    ]
    texts = [row["text"] for row in rows]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "text.txt").write_text("\n\n".join(texts) + "\n")
    (folder / "source.txt").write_text("\n".join(texts) + "\n")
    (folder / "target.txt").write_text("\n".join(text[::-1] for text in texts) + "\n")
    return folder


def config_of(task, family, **fields):
    config = default_config(task, family)
    config.model.family = family
    config.train.epochs = None
    config.update_from_flattened_dict({"train.steps": 4, **fields})
    return config


@pytest.mark.parametrize("cell", ["lstm", "lstmn"])
def test_a_classifier_learns_predicts_and_exports(files, tmp_path, cell):
    config = config_of(
        "classification",
        "attentive_lstm",
        **{
            "data.train": str(files / "rows.jsonl"),
            "data.text": "text",
            "data.label": "label",
            "data.vocab_size": 90,
            "model.hidden_dim": 16,
            "model.cell": cell,
            "model.reduce": "query_attention",
            "train.steps": 60,
            "train.learning_rate": 0.01,
        },
    )
    results = finetune(config, workdir=str(tmp_path / "run"))
    assert results["accuracy"] == 1.0
    model = keras_attn.load(tmp_path / "run")
    assert model.model.backbone.reduce == "query_attention" and model.model.pooling == "pooled"
    texts = ["old film good", "song bad"]
    predicted = model.predict(texts)
    assert [row["label"] for row in predicted] == ["good", "bad"]
    pages = unpacked(model.attention_page(texts[0]))
    assert pages and all(len(keys) == 5 for _, keys, _ in pages.values())
    export(str(tmp_path / "run"), str(tmp_path / "exported"))
    served = tf.saved_model.load(str(tmp_path / "exported"))
    found = served.signatures["serving_default"](text=tf.constant(texts))
    np.testing.assert_allclose(
        found["probabilities"].numpy().max(axis=1),
        [max(row["probabilities"].values()) for row in predicted],
        1e-5,
    )


def test_the_attentive_cnn_learns_resumes_and_predicts(files, tmp_path):
    config = config_of(
        "classification",
        "attentive_cnn",
        **{
            "data.train": str(files / "rows.jsonl"),
            "data.text": "text",
            "data.label": "label",
            "data.vocab_size": 90,
            "model.hidden_dim": 16,
            "train.steps": 60,
            "train.learning_rate": 0.01,
        },
    )
    assert finetune(config, workdir=str(tmp_path / "run"))["accuracy"] == 1.0
    model = keras_attn.load(tmp_path / "run")
    predicted = model.predict(["old film good", "song bad"])
    assert [row["label"] for row in predicted] == ["good", "bad"]
    ((_, keys, weights),) = unpacked(model.attention_page("old film good")).values()
    assert len(keys) == 5 and weights.sum() == pytest.approx(1, abs=0.02)


def test_an_lstmn_trains_as_an_attentive_lstm_with_its_cell(files, tmp_path):
    def config(family, **fields):
        return config_of(
            "classification",
            family,
            **{
                "data.train": str(files / "rows.jsonl"),
                "data.text": "text",
                "data.label": "label",
                "data.vocab_size": 90,
                "model.hidden_dim": 16,
                "checkpoint.every": 2,
                **fields,
            },
        )

    def run(family, name, **fields):
        results = finetune(config(family, **fields), workdir=str(tmp_path / name))
        return results["weights_sha256"]

    expected = run("attentive_lstm", "lstm", **{"model.cell": "lstmn"})
    stop_at_first_checkpoint(finetune, config("lstmn"), tmp_path / "lstmn")
    assert run("lstmn", "lstmn") == expected  # resumed
    assert run("lstmn", "short", **{"model.tape_length": 1}) != expected
    model = keras_attn.load(tmp_path / "lstmn")
    assert model.model.backbone.cell == "lstmn" and model.model.backbone.tape_length == 32
    assert model.predict(["old film good"])[0]["label"] in ("good", "bad")


def test_packing_is_refused(files, tmp_path):
    config = config_of(
        "classification",
        "attentive_lstm",
        **{"data.train": str(files / "rows.jsonl"), "data.pack": 2},
    )
    with pytest.raises(UserError, match="data.pack must be 1"):
        finetune(config, workdir=str(tmp_path / "run"))


@pytest.mark.parametrize(
    ("family", "fields"),
    [
        ("luong", {"model.attention": "local_predictive", "model.window": 3}),
        ("luong", {"model.attention": "none", "model.cell": "gru", "model.num_layers": 2}),
        ("bahdanau", {"model.readout_state": "current", "model.teacher_forcing_ratio": 0.5}),
    ],
)
def test_a_translator_resumes_bitwise_and_translates(files, tmp_path, family, fields):
    def config():
        return config_of(
            "translation",
            family,
            **{
                "data.train.source": str(files / "source.txt"),
                "data.train.target": str(files / "target.txt"),
                "data.validation.source": str(files / "source.txt"),
                "data.validation.target": str(files / "target.txt"),
                "data.limit": 40,
                "data.vocab_size": 60,
                "model.units": 16,
                "train.batch_tokens": 256,
                "train.steps": 6,
                "checkpoint.every": 3,
                "eval.every": 6,
                **fields,
            },
        )

    whole = finetune(config(), workdir=str(tmp_path / "whole"))
    part = tmp_path / "part"
    stop_at_first_checkpoint(finetune, config(), part)
    resumed = finetune(config(), workdir=str(part))
    assert resumed["weights_sha256"] == whole["weights_sha256"]
    model = keras_attn.load(tmp_path / "whole")
    one, two = model.translate(["old film good"], 2, nbest=2, alignments=True)[0]
    assert one["score"] >= two["score"]
    assert one["attention"].shape == (len(one["tokens"]), len(one["source_tokens"]))
    assert model.translate(["old film good"], 2) == [one["text"]]
    if fields.get("model.attention") == "none":
        with pytest.raises(UserError, match="no attention weights"):
            model.attention_page("old film good")
        return
    ((queries, keys, weights),) = unpacked(model.attention_page("old film good", beam=2)).values()
    assert (queries, keys) == (one["tokens"], one["source_tokens"])
    np.testing.assert_allclose(weights[0], one["attention"], atol=0.005)


@pytest.mark.parametrize("cell", ["lstm", "lstmn"])
def test_a_language_model_pretrains_and_generates(files, tmp_path, cell):
    config = config_of(
        "causal_lm",
        "lstm",
        **{
            "data.train": str(files / "text.txt"),
            "data.format": "lines",
            "data.length": 16,
            "data.vocab_size": 270,
            "model.hidden_dim": 16,
            "model.cell": cell,
            "train.batch_size": 4,
        },
    )
    pretrain(config, workdir=str(tmp_path / "run"))
    model = keras_attn.load(tmp_path / "run")
    prompts = ["old film", "song"]
    alone = [model.generate([prompt], 5, temperature=0.0)[0] for prompt in prompts]
    assert model.generate(prompts, 5, temperature=0.0) == alone
    beams = model.generate(prompts, 5, beam=3, nbest=2)
    assert all(one["log_probability"] >= two["log_probability"] for one, two in beams)


@pytest.mark.parametrize(
    ("family", "fields"),
    [
        ("attentive_lstm", {}),
        ("lstmn", {}),
        ("attentive_reader", {}),
        ("attentive_reader", {"model.question": "vector"}),
    ],
)
def test_a_reader_answers_with_words_of_the_passage(tmp_path, family, fields):
    passages = made_up(12)
    config = config_of(
        "span_qa",
        family,
        **{
            "data.task": "reading_comprehension",
            "data.train": write(tmp_path / "train.json", *passages),
            "data.validation": write(tmp_path / "valid.json", *passages[:4]),
            "data.vocab_size": 120,
            "model.hidden_dim": 16,
            **fields,
        },
    )
    results = finetune(config, workdir=str(tmp_path / "run"))
    assert 0 <= results["exact"] <= results["f1"] <= 100
    passage = passages[0]["context"]
    model = keras_attn.load(tmp_path / "run")
    (found,) = model.answer([QUESTION], [passage])
    assert found["answer"] in passage
    for name, (_, keys, weights) in unpacked(model.attention_page(QUESTION, passage)).items():
        assert keys[0] == "[CLS]" and keys.count("[SEP]") == 2
        if family == "attentive_reader":  # its tokens attend to the question
            question = keys.index("[SEP]") + 1
            assert not weights[..., question:].any() and weights[..., :question].any(), name
