"""ModernBERT, and BERTs with single parts of it: pretraining, resuming, longer contexts, tasks."""

import json

import keras
import numpy as np
import pytest

from keras_attn import convert, finetune, load, pretrain
from keras_attn.convert import read_ready
from keras_attn.defaults import default_config
from keras_attn.errors import UserError

pytestmark = pytest.mark.runs
SHAPE = {"model.num_layers": 2, "model.hidden_dim": 16, "model.num_heads": 2, "model.window": 8}
CLASSES = ("bad", "fair", "good")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("modernbert")
    random = np.random.default_rng(0)
    rows = [
        {"text": f"{CLASSES[k]} " * random.integers(1, 30) + f"film {n}", "class": CLASSES[k]}
        for n, k in enumerate(random.integers(0, 3, 90).tolist())
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def config_of(folder, task="masked_lm", family="modernbert", **changes):
    config = default_config(task, family)
    shape = SHAPE if task == "masked_lm" else {}
    fields = {"train.steps": 4, "train.batch_size": 4, "data.length": 32, **shape, **changes}
    fields |= {"data.train": str(folder / "rows.jsonl"), "data.validation": None}
    if task == "masked_lm":
        fields |= {"data.validation": fields["data.train"], "data.vocab_size": 300}
    else:
        fields |= {"data.text": "text", "data.label": "class", "data.holdout": 0.3}
    config.update_from_flattened_dict(fields)
    return config


@pytest.fixture(scope="module")
def pretrained(folder):
    return pretrain(config_of(folder), workdir=str(folder / "pretrained"))


def test_rows_are_packed_and_training_changes_the_loss(folder, pretrained):
    config = json.loads((folder / "pretrained" / "config.json").read_text())
    data = config["config"]["data"]
    assert (data["segments"], data["pack"], data["masked_fraction"]) == ("documents", 16, 0.3)
    assert config["architecture"]["rotary_base"] == 160000.0
    assert np.isfinite(pretrained["mlm_loss"])
    found = load(str(folder / "pretrained")).fill_mask("good [MASK] film")
    assert len(found) == 5


def test_a_run_that_was_stopped_continues_bitwise(folder):
    whole = folder / "whole"
    pretrain(
        config_of(folder, **{"train.schedule": "wsd", "train.decay_fraction": 0.5}),
        workdir=str(whole),
    )
    parts = folder / "parts"
    for steps in (2, 4):
        changes = {"train.schedule": "constant", "train.steps": steps}
        pretrain(config_of(folder, **changes), workdir=str(parts))
    again = folder / "again"
    pretrain(config_of(folder, **{"train.schedule": "constant"}), workdir=str(again))
    one, other = (read_ready(path).weights for path in (parts, again))
    for path, weight in one.items():
        np.testing.assert_array_equal(weight, other[path])
    third = read_ready(whole).weights
    assert any((np.asarray(third[path]) != np.asarray(one[path])).any() for path in one)


def test_a_longer_context_starts_from_the_weights(folder, pretrained):
    changes = {"data.length": 128, "model.rotary_base": 50.0, "train.learning_rate": 1e-9}
    found = pretrain(
        config_of(folder, **changes),
        pretrained=str(folder / "pretrained"),
        workdir=str(folder / "longer"),
    )
    saved = json.loads((folder / "longer" / "config.json").read_text())
    assert saved["architecture"]["rotary_base"] == 50.0
    one, other = (read_ready(folder / name).weights for name in ("pretrained", "longer"))
    for path, weight in one.items():
        np.testing.assert_allclose(weight, other[path], atol=1e-6)
    assert np.isfinite(found["mlm_loss"])


@pytest.mark.parametrize("start", ["pretrained", None])
@pytest.mark.parametrize("pack", [1, 4])
def test_classifiers_are_finetuned(folder, pretrained, start, pack):
    config = config_of(folder, "classification", **{"data.pack": pack})
    if start is None:
        config.model.family = "modernbert"
        config.data.vocab = str(folder / "pretrained")
    workdir = folder / f"classifier_{start}_{pack}"
    options = {"pretrained": str(folder / start)} if start else {}
    results = finetune(config, workdir=str(workdir), **options)
    assert 0 <= results["accuracy"] <= 1
    expected = load(str(workdir)).probabilities(["good film", "bad bad film"])
    if start:
        convert(str(workdir), str(folder / f"theirs_{pack}"), "huggingface")
        found = load(str(folder / f"theirs_{pack}")).probabilities(["good film", "bad bad film"])
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    "ingredient",
    [
        {"positions": "rotary"},
        {"feed_forward": "geglu"},
        {"norm_bias": False},
        {"use_bias": False},
        {"first_norm": False},
        {"local_every": 2},
        {"window": 8},
        {"qk_norm": True},
        {"logit_cap": 15.0},
    ],
    ids=lambda ingredient: next(iter(ingredient)),
)
def test_a_bert_takes_one_ingredient_by_one_flag(folder, ingredient):
    (name,) = ingredient
    config = config_of(folder, family="bert")
    config.update_from_flattened_dict(
        {"model.window": None, **{f"model.{key}": value for key, value in ingredient.items()}}
    )
    workdir = str(folder / f"bert_{name}")
    assert np.isfinite(pretrain(config, workdir=workdir)["mlm_loss"])
    assert load(workdir).fill_mask("good [MASK] film")
    ready = read_ready(workdir)
    assert {**ready.architecture, **ready.heads}[name] == ingredient[name]
    with pytest.raises(UserError, match="supports only BERT models trained with"):
        convert(workdir, f"{workdir}_theirs", "huggingface")


def test_the_result_of_weight_averaging_is_what_others_load(folder):
    changes = {"train.average_fraction": 0.5, "data.masked_fraction_end": 0.1}
    workdir = folder / "averaged"
    results = pretrain(config_of(folder, **changes), workdir=str(workdir))
    plain = pretrain(config_of(folder), workdir=str(folder / "not_averaged"))
    assert results["mlm_loss"] != plain["mlm_loss"]
    model = keras.saving.load_model(workdir / "model.keras")
    own = {variable.path.partition("/")[2]: variable.numpy() for variable in model.variables}
    for path, weight in read_ready(workdir).weights.items():
        np.testing.assert_array_equal(weight, own[path])
