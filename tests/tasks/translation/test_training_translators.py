"""Runs that train translators: their data, their ends, and how they are computed."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_attn import finetune, load
from keras_attn.errors import UserError
from keras_attn.export.saved_model import export
from keras_attn.inference.evaluate import evaluate
from keras_attn.runs import dry_run
from keras_attn.tasks.translation.metrics import translation_scores
from keras_attn.tasks.translation.translator import read_sentences
from tests.support.small_translators import config_of, make_corpus

pytestmark = pytest.mark.runs


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return make_corpus(tmp_path_factory.mktemp("corpus"))


def test_case_and_tokenization_of_the_scores_follow_the_config(corpus, tmp_path):
    texts, references = ["The cat , red"], ["the cat, red"]
    for lowercase, tokenize, alike in (
        (True, "13a", True),
        (False, "13a", False),
        (True, "none", False),
    ):
        scores = translation_scores(texts, references, lowercase, tokenize)
        assert (scores["bleu"][0] > 99.9) == alike
        assert f"case:{'lc' if lowercase else 'mixed'}" in scores["bleu"][1]
    results = finetune(
        config_of(corpus, **{"eval.lowercase": True, "eval.tokenize": "none"}),
        workdir=str(tmp_path / "run"),
    )
    assert "case:lc|" in results["bleu_signature"] and "tok:none|" in results["bleu_signature"]
    assert "case:lc|" in results["chrf_signature"]
    again = evaluate(
        str(tmp_path / "run"), str(corpus / "valid.en"), target=str(corpus / "valid.de")
    )
    assert again["bleu_signature"] == results["bleu_signature"]


@pytest.fixture(scope="module")
def patient(corpus):
    """The workdir of a run with sines for positions that ends early, and its results."""
    config = config_of(
        corpus,
        **{
            "data.length": 64,
            "model.positions": "sinusoidal",
            "train.steps": 60,
            "eval.every": 4,
            "eval.metric": "bleu",
            "eval.patience": 2,
            "train.learning_rate": 1e-9,
        },
    )
    return corpus / "patient", finetune(config, workdir=str(corpus / "patient"))


def test_a_run_ends_when_bleu_grows_no_more(patient):
    workdir, results = patient
    lines = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    scores = [line["validation_bleu"] for line in lines if "validation_bleu" in line]
    # The model does not learn: the first evaluation stays the best; patience is two more.
    assert scores == 3 * [results["bleu"]]
    assert (results["steps"], results["best_step"]) == (12, 4)


@pytest.mark.slow
def test_patience_supports_checkpoint_averaging(corpus, tmp_path):
    config = config_of(
        corpus,
        **{
            "train.steps": 60,
            "eval.every": 4,
            "eval.patience": 2,
            "train.learning_rate": 1e-9,
            "checkpoint.every": 4,
            "checkpoint.average": 2,
        },
    )
    results = finetune(config, workdir=str(tmp_path / "run"))
    assert results["steps"] == 12
    again = finetune(config, workdir=str(tmp_path / "run"))
    assert again["weights_sha256"] == results["weights_sha256"]


def test_a_saved_model_searches_as_far_as_its_longest_text_needs(patient, tmp_path):
    export(str(patient[0]), str(tmp_path / "served"), beam=3, length_penalty=0.2)
    saved = tf.saved_model.load(str(tmp_path / "served"))
    for words in (1, 9, 30):  # 32, 64 and 128 steps
        texts = ["cat " * words, "dog", ""]
        found = saved.serve(tf.constant(texts))
        wanted = load(str(patient[0])).translate(texts, beam=3, length_penalty=0.2, nbest=1)
        assert [one.decode() for one in found["translation"].numpy()] == [
            row[0]["text"] for row in wanted
        ]
        np.testing.assert_allclose(found["score"], [row[0]["score"] for row in wanted], atol=1e-5)


def test_a_set_of_tfds_is_learned_from(tmp_path):
    import tensorflow_datasets as tfds

    columns = {
        split: tf.data.Dataset.from_tensor_slices(
            {"en": ["red cat", "dog"] * 20, "de": ["rot Katze", "Hund"] * 20}
        )
        for split in ("train", "validation")
    }
    tfds.dataset_builders.store_as_tfds_dataset(
        name="two_tongues",
        version="1.0.0",
        data_dir=tmp_path / "tfds",
        split_datasets=columns,
        features=tfds.features.FeaturesDict({"en": tf.string, "de": tf.string}),
    )
    tfds.core.add_data_dir(str(tmp_path / "tfds"))
    results = finetune(
        config_of(
            tmp_path,
            **{
                "data.train.source": "tfds:two_tongues",
                "data.train.target": None,
                "data.validation.source": "tfds:two_tongues",
                "data.validation.target": None,
                "data.source_column": "en",
                "data.target_column": "de",
                "data.vocab_size": 40,
            },
        ),
        workdir=str(tmp_path / "run"),
    )
    assert results["steps"] == 4 and 0 <= results["bleu"] <= 100


def test_a_table_is_the_same_as_two_files(corpus, tmp_path):
    sides = [(corpus / f"train.{side}").read_text().splitlines() for side in ("de", "en")]
    (tmp_path / "train.tsv").write_text(
        "\n".join(["other\tgerman\tenglish", *map("x\t{}\t{}".format, *sides)])
    )
    data = config_of(
        corpus, **{"data.source_column": "english", "data.target_column": "german"}
    ).data
    table = read_sentences(data, str(tmp_path / "train.tsv"), None, "train")
    files = read_sentences(data, data.train.source, data.train.target, "train")
    assert list(table.pairs()) == list(files.pairs()) == list(zip(*reversed(sides), strict=True))


def test_what_a_run_will_cost_is_reported_without_one(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(dry_run, "MEASURED_SECONDS", 0.5)
    found = finetune(config_of(corpus), workdir=str(tmp_path / "run"), dry_run=True)
    assert found["steps"] == 4 and found["seconds"] > 0
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_resumed_run_is_bitwise_identical(corpus, tmp_path):
    fields = {
        "checkpoint.every": 3,
        "checkpoint.average": 2,
        "model.dropout": 0.1,
        "train.schedule": "constant",
        "train.warmup_fraction": 0.0,
    }
    wanted = finetune(
        config_of(corpus, **fields, **{"train.steps": 12}), workdir=str(tmp_path / "whole")
    )
    for steps in (7, 12):  # it ends between two regular checkpoints
        found = finetune(
            config_of(corpus, **fields, **{"train.steps": steps}), workdir=str(tmp_path / "broken")
        )
    assert found["weights_sha256"] == wanted["weights_sha256"]


@pytest.mark.slow
def test_devices_change_nothing_but_rounding(corpus, tmp_path):
    config = config_of(corpus, **{"train.steps": 6, "train.accumulate": 2})
    wanted = finetune(config, workdir=str(tmp_path / "one"), strategy="one_device")
    found = finetune(config, workdir=str(tmp_path / "two"), strategy="mirrored")
    assert found["loss"] == pytest.approx(wanted["loss"], rel=1e-4)


@pytest.mark.slow
def test_how_it_is_computed_changes_little(corpus, tmp_path):
    found = [
        finetune(
            config_of(corpus, **{"train.steps": 6, **fields}), workdir=str(tmp_path / str(number))
        )
        for number, fields in enumerate(
            (
                {},
                {"train.jit": True},  # other batches, of fewer shapes
                {"train.precision": "mixed_bfloat16"},
                {"train.precision": "mixed_float16"},
            )
        )
    ]
    losses = [one["loss"] for one in found]
    assert losses == pytest.approx([losses[0]] * 4, rel=0.01)
    assert max(losses) < 0.95 * np.log(60), "they must have learned"
    assert len({one["weights_sha256"] for one in found}) == 4


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"data.train.source": None}, "data.train.source must be set"),
        ({"data.train.target": "nowhere"}, "nowhere"),
        ({"data.length": 3}, "A sentence must have at most 2 tokens.*at .*train.en, line"),
        ({"model.size": "huge"}, "tiny, base, big"),
        ({"model.num_heads": 5}, "num_heads=5"),
        ({"data.subwords": "words"}, "bpe, unigram"),
        ({"eval.metric": "blue"}, "Did you mean bleu"),
        ({"eval.metric": "bleu", "checkpoint.average": 2}, "checkpoint.average must be 1"),
        ({"train.schedule": "root"}, "inverse_sqrt"),
        ({"train.warmup_fraction": 0.0}, "inverse_sqrt requires a warmup"),
        ({"checkpoint.average": 2}, "requires checkpoint.every"),
        ({"eval.tokenize": "words"}, "13a"),
        ({"data.encoding": "latin-99"}, "encoding must be known"),
    ],
)
def test_invalid_fields_are_errors(corpus, tmp_path, fields, message):
    config = config_of(corpus)
    for name, value in fields.items():
        *groups, field = name.split(".")
        place = config
        for group in groups:
            place = place[group]
        place[field] = value
    with pytest.raises(UserError, match=message):
        finetune(config, workdir=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_subwords_that_are_never_learned_are_reported(corpus, tmp_path, capsys):
    finetune(
        config_of(corpus, **{"data.vocab_size": 1000, "train.steps": 1}),
        workdir=str(tmp_path / "run"),
    )
    assert "subwords; the others are not trained" in capsys.readouterr().out
