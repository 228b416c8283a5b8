"""Runs that pretrain ELECTRA by replaced-token detection, and what uses their workdirs."""

import json

import keras
import numpy as np
import pytest

from keras_attn import convert, finetune, load, pretrain
from keras_attn.defaults import default_config
from keras_attn.errors import UserError
from tests.support.small_language_models import write_texts

pytestmark = pytest.mark.runs


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replaced")
    write_texts(folder / "train.txt", 400, 0)
    write_texts(folder / "valid.txt", 30, 1)
    rows = [f"{name} sees the {name}\t{name}" for name in ("cat", "dog") for _ in range(12)]
    (folder / "labels.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    return folder


def _config(folder, **fields):
    config = default_config("replaced_tokens")
    config.update_from_flattened_dict(
        {
            "data.train": str(folder / "train.txt"),
            "data.validation": str(folder / "valid.txt"),
            "data.format": "lines",
            "data.length": 24,
            "data.vocab_size": 120,
            "model.num_layers": 1,
            "model.hidden_dim": 32,
            "model.num_heads": 2,
            "model.generator_fraction": 0.5,
            "train.steps": 4,
            "train.batch_size": 8,
            "train.learning_rate": 0.01,
            "eval.batch_size": 8,
            **fields,
        }
    )
    return config


@pytest.fixture(scope="module")
def trained(corpus):
    """The workdir of a run, and its results."""
    config = _config(corpus, **{"train.steps": 800, "train.batch_size": 32})
    return corpus / "run", pretrain(config, workdir=str(corpus / "run"))


def test_generator_and_discriminator_learn(trained):
    results = trained[1]
    assert results["mlm_accuracy"] > 0.6
    # Better than the prediction that no token was replaced.
    assert results["rtd_recall"] > 0.3 and results["rtd_precision"] > 0.6
    assert results["rtd_auc"] > 0.8
    assert results["rtd_loss"] == pytest.approx(50 * results["rtd_cross_entropy"], rel=1e-5)
    assert results["loss"] == pytest.approx(results["mlm_loss"] + results["rtd_loss"], rel=1e-5)
    assert 0 < results["mlm_loss_per_character"] < results["mlm_loss"]


def test_a_resumed_run_is_bitwise_identical(corpus, tmp_path):
    fields = {
        "train.schedule": "constant",
        "train.warmup_fraction": 0.0,
        "train.accumulate": 2,
        "model.dropout": 0.1,
    }
    wanted = pretrain(
        _config(corpus, **fields, **{"train.steps": 12}), workdir=str(tmp_path / "whole")
    )
    for steps in (5, 12):
        found = pretrain(
            _config(corpus, **fields, **{"train.steps": steps}), workdir=str(tmp_path / "broken")
        )
    assert found["weights_sha256"] == wanted["weights_sha256"]
    measured = [name for name in wanted if name.startswith(("mlm_", "rtd_"))]
    assert len(measured) == 9
    assert [found[name] for name in measured] == [wanted[name] for name in measured]


def _first_step(workdir):
    return json.loads((workdir / "metrics.jsonl").read_text().splitlines()[0])


def test_two_devices_have_the_generator_and_the_evaluation_of_one(trained, corpus, tmp_path):
    """Each device draws its own samples: only what the discriminator reads in training differs."""
    one, two = tmp_path / "one", tmp_path / "two"
    # Without a learning rate the weights of the first step are those of the evaluation.
    fields = {"train.steps": 1, "train.learning_rate": 1e-12, "eval.batch_size": 32}
    found = [
        pretrain(_config(corpus, **fields), workdir=str(workdir), pretrained=trained[0], **options)
        for workdir, options in (
            (one, {}),
            (two, {"strategy": "mirrored", "virtual_devices": 2}),
        )
    ]
    for name in ("mlm_loss", "mlm_accuracy"):
        assert _first_step(one)[name] == pytest.approx(_first_step(two)[name], rel=1e-5)
    assert _first_step(one)["rtd_loss"] != _first_step(two)["rtd_loss"]
    for name in ("mlm_loss", "rtd_loss", "rtd_accuracy", "rtd_precision", "rtd_recall", "rtd_auc"):
        assert found[0][name] == pytest.approx(found[1][name], rel=1e-5)


def test_a_workdir_is_finetuned_from_its_discriminator(trained, corpus, tmp_path):
    config = default_config("classification", "electra")
    config.update_from_flattened_dict(
        {
            "data.train": str(corpus / "labels.tsv"),
            "data.text": "text",
            "data.label": "label",
            "data.validation": str(corpus / "labels.tsv"),
            "train.epochs": 1.0,
            "train.learning_rate": 1e-4,
        }
    )
    finetune(config, workdir=str(tmp_path / "run"), pretrained=str(trained[0]))
    model = keras.saving.load_model(tmp_path / "run" / "model.keras")
    assert not any("/generator/" in variable.path for variable in model.variables)
    found, started = convert.read(tmp_path / "run"), convert.read(trained[0])
    assert found.architecture["hidden_dim"] == 32
    path = "electra_encoder/layer_0/feed_forward/output/kernel"
    np.testing.assert_allclose(found.weights[path], started.weights[path], atol=0.02)
    assert load(tmp_path / "run").predict(["cat sees the cat"])[0]["label"] in ("cat", "dog")


@pytest.mark.slow  # with the rounding of quick compilation the model misses this token
def test_the_generator_predicts_masked_tokens_and_the_discriminator_detects_replaced_ones(trained):
    model = load(trained[0])
    (best, *_) = model.fill_mask("the cat [MASK] a dog")
    assert best["token"] == "sees" and best["text"] == "the cat sees a dog"
    right, wrong = model.detect(["the cat sees a dog", "the cat sees a sees"])
    assert [one["token"] for one in wrong] == ["the", "cat", "sees", "a", "sees"]
    assert wrong[-1]["probability"] > 0.5 > right[-1]["probability"]
    assert model.embed(["the cat"]).shape == (1, 32)


def test_generator_and_discriminator_are_converted_to_two_models_of_transformers(trained, tmp_path):
    model = load(trained[0]).model
    ids = np.random.default_rng(0).integers(5, 40, (2, 9)).astype("int32")
    inputs = {"token_ids": ids, "mask_positions": np.array([[1, 4], [2, 3]], "int32")}
    expected = model(inputs)
    for task, name, output in (
        (None, "ElectraForPreTraining", "rtd_logits"),
        ("masked_lm", "ElectraForMaskedLM", "mlm_logits"),
    ):
        folder = tmp_path / name
        convert.convert(trained[0], folder, "huggingface", task=task)
        assert json.loads((folder / "config.json").read_text())["architectures"] == [name]
        found = convert.read_ready(folder).make_model()(inputs)
        np.testing.assert_allclose(found[output], expected[output], atol=1e-5, err_msg=name)


def test_a_released_discriminator_is_trained_with_a_new_generator(trained, corpus, tmp_path):
    convert.convert(trained[0], tmp_path / "released", "huggingface")
    config = _config(corpus)
    config.model.update(num_layers=None, hidden_dim=None, num_heads=None)
    with pytest.raises(UserError, match="no weights for generator.*model.new_heads=True"):
        pretrain(config, workdir=str(tmp_path / "no"), pretrained=str(tmp_path / "released"))
    config.model.new_heads = True
    results = pretrain(config, workdir=str(tmp_path / "run"), pretrained=str(tmp_path / "released"))
    assert np.isfinite(results["loss"])
    heads = json.loads((tmp_path / "run" / "config.json").read_text())["heads"]
    assert heads["generator_fraction"] == 0.5 and heads["discriminator_weight"] == 50
