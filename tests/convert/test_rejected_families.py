"""GPT-2 and XLNet folders that cannot be converted, or that pretraining cannot start from."""

import json

import pytest

from keras_attn import convert, pretrain
from keras_attn.convert import read_ready
from keras_attn.defaults import language_modeling_defaults, permutation_modeling_defaults
from keras_attn.errors import UserError
from tests.support.other_families import GOLDEN, MODELS, copied
from tests.support.tensorflow_folders import write_openai


@pytest.fixture
def openai(tmp_path):
    return write_openai(tmp_path / "openai", read_ready(MODELS / "gpt2").tokenizer)


@pytest.mark.parametrize(
    "name, fields, message",
    [
        (
            "gpt2",
            {"architectures": ["GPT2DoubleHeadsModel"]},
            "architectures must name one of GPT2LM",
        ),
        (
            "gpt2",
            {"scale_attn_by_inverse_layer_idx": True},
            "scale_attn_by_inverse_layer_idx must be",
        ),
        ("gpt2", {"embd_pdrop": 0.2}, "embd_pdrop must be 0.1"),
        (
            "gpt2",
            {"resid_pdrop": float("nan"), "embd_pdrop": float("nan")},
            "dropout must be a number of at least 0. Received: nan",
        ),
        ("gpt2", {"activation_function": "mish"}, "activation_function must be one of gelu_new"),
        ("gpt2", {"n_layer": 99}, "num_layers exceeds the number of layers in the weights"),
        ("gpt2", {"n_layer": 2}, r"unknown: transformer\.h\.2"),
        ("gpt2", {"n_embd": "12"}, "hidden_dim must be an integer"),
        ("gpt2", {"n_head": 5}, "hidden_dim must be a multiple of num_heads"),
        ("gpt2", {"vocab_size": 280}, "must have shape"),
        (
            "xlnet",
            {"architectures": ["XLNetForQuestionAnswering"]},
            "architectures must name one of XLNetLMHead",
        ),
        ("xlnet", {"architectures": ["XLNetModel"]}, "unknown: lm_loss.bias"),
        ("xlnet", {"untie_r": False}, "untie_r must be True"),
        ("xlnet", {"attn_type": "uni"}, "attn_type must be bi"),
        ("xlnet", {"clamp_len": "far"}, "clamp_len must be an integer"),
        ("xlnet", {"ff_activation": ["gelu"]}, "ff_activation must be one of gelu"),
        ("xlnet_classifier", {"summary_type": "mean"}, "summary_type must be last"),
        ("xlnet_classifier", {"summary_last_dropout": 1}, "summary_last_dropout must be in"),
        ("xlnet_classifier", {"id2label": {"0": "a", "1": "b"}}, "must have shape"),
    ],
)
def test_an_unsupported_model_is_rejected(name, fields, message, tmp_path):
    folder = copied(name, tmp_path, **fields)
    with pytest.raises(UserError, match=message):
        convert.read(folder)


@pytest.mark.parametrize(
    "name, file, change, message",
    [
        (
            "gpt2",
            "tokenizer.json",
            lambda found: found["model"].update(type="Unigram"),
            "byte-level",
        ),
        (
            "gpt2",
            "tokenizer.json",
            lambda found: found["model"]["vocab"].pop("a"),
            "ids must be consecutive",
        ),
        (
            "gpt2",
            "tokenizer.json",
            lambda found: found["added_tokens"].append({"id": 999, "content": "new"}),
            "ids must be consecutive",
        ),
        (
            "gpt2",
            "tokenizer.json",
            lambda found: found["model"]["merges"].append(["a"]),
            "pairs of",
        ),
        ("gpt2", "tokenizer.json", lambda found: found["model"]["merges"].append(1), "pairs of"),
        (
            "gpt2",
            "tokenizer.json",
            lambda found: found["added_tokens"].extend(
                [{"id": {"x": 1}, "content": "a1"}, {"id": {"y": 1}, "content": "a2"}]
            ),
            "ids must be consecutive",
        ),
        (
            "gpt2",
            "tokenizer.json",
            lambda found: found["model"].update(ignore_merges=True),
            "level",
        ),
        (
            "gpt2",
            "tokenizer.json",
            lambda found: found["added_tokens"].append({"id": 283, "content": "\ud800"}),
            "surrogate",
        ),
        (
            "gpt2",
            "tokenizer_config.json",
            lambda found: found.update(add_prefix_space=True),
            "like GPT-2's",
        ),
    ],
)
def test_an_unsupported_tokenizer_is_rejected(name, file, change, message, tmp_path):
    folder = copied(name, tmp_path)
    found = json.loads((folder / file).read_text())
    change(found)
    (folder / file).write_text(json.dumps(found))
    with pytest.raises(UserError, match=message):
        convert.read(folder)


def test_pickles_and_missing_files_are_rejected(openai, tmp_path):
    folder = copied("gpt2", tmp_path)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UserError, match="is a pickle, which can run code"):
        convert.read(folder)
    folder = copied("xlnet", tmp_path / "x")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(UserError, match=r"lacks the tokenizer: spiece\.model"):
        convert.convert(folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    (openai / "model.ckpt.data-00000-of-00001").write_bytes(b"short")
    with pytest.raises(UserError, match="not a complete TensorFlow checkpoint"):
        convert.read(openai)
    (openai / "hparams.json").write_text('{"n_vocab": 3}')
    with pytest.raises(UserError, match="lacks the field n_layer"):
        convert.read(openai)


@pytest.mark.parametrize(
    "file, change, message",
    [
        ("vocab.json", lambda ids: ids.update(a=ids["b"], b=ids["a"]), "vocab.json has changed"),
        ("vocab.json", lambda ids: ids.update(new=len(ids)), "vocab.json has changed"),
        (
            "config.json",
            lambda found: found["config"].update(checkpoint=None),
            "checkpoint must be an object",
        ),
        ("config.json", lambda found: found["architecture"].update(num_heads=7), "multiple of"),
    ],
)
def test_a_changed_workdir_is_rejected(file, change, message, tmp_path):
    convert.convert(MODELS / "gpt2", tmp_path / "run")
    path = tmp_path / "run" / file
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))
    with pytest.raises(UserError, match=message):
        convert.read(tmp_path / "run")


@pytest.mark.parametrize(
    "heads",
    [
        {"num_classes": 0},
        {"num_classes": "x"},
        {"dropout": 1.5},
        {"pooling": "x"},
        {"other": 1},
        {"dtype": "float32"},
    ],
)
def test_a_changed_classifier_is_rejected(heads, tmp_path):
    convert.convert(MODELS / "xlnet_classifier", tmp_path / "run")
    path = tmp_path / "run" / "config.json"
    found = json.loads(path.read_text())
    found["heads"].update(heads)
    path.write_text(json.dumps(found))
    with pytest.raises(
        UserError, match="not the config.json of a workdir|The model has .* classes"
    ):
        convert.read(tmp_path / "run")


@pytest.mark.parametrize(
    ("folder", "defaults", "message"),
    [
        (MODELS / "xlnet", language_modeling_defaults, "must be a pretrained model of GPT-2"),
        (
            MODELS / "xlnet_classifier",
            permutation_modeling_defaults,
            "must be a pretrained model of XLNet",
        ),
        (
            GOLDEN / "hugging_face" / "encoder",
            permutation_modeling_defaults,
            r"model of XLNet. Received: .*, a model of BERT \(encoder\)",
        ),
    ],
)
def test_pretraining_starts_from_its_own_family_and_task(folder, defaults, message, tmp_path):
    with pytest.raises(UserError, match=message):
        pretrain(defaults(), tmp_path / "run", folder)
