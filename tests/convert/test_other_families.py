"""GPT-2 and XLNet checkpoints of other libraries: outputs equal theirs, and conversions back."""

import json
import re

import h5py
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_attn import convert, finetune, load, pretrain
from keras_attn.convert import read_ready
from keras_attn.defaults import (
    finetuning_defaults,
    language_modeling_defaults,
    permutation_modeling_defaults,
)
from keras_attn.errors import UserError
from tests.support.other_families import GOLDEN, KERAS_HUB, MODELS, PAIRS, TEXTS, array, copied
from tests.support.tensorflow_folders import (
    openai_weights,
    weights_of,
    write_checkpoint,
    xlnet_weights,
)

FOLDERS = ["gpt2", "gpt2_classifier", "xlnet", "xlnet_memory", "xlnet_classifier"]


@pytest.fixture(scope="module")
def outputs():
    with np.load(MODELS / "outputs.npz", allow_pickle=False) as file:
        return dict(file)


def assert_same_bits(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype and found[name].shape == value.shape, name
        assert found[name].tobytes() == value.tobytes(), name


def tensors(folder):
    return load_file(folder / "model.safetensors")


def test_gpt2_tokenizes_and_predicts_as_transformers(outputs):
    saved = read_ready(MODELS / "gpt2")
    model = saved.make_model()
    for number, text in enumerate(TEXTS):
        ids, _ = saved.tokenizer.encode([text])
        np.testing.assert_array_equal(ids[None], outputs[f"gpt2/{number}/ids"])
        assert saved.tokenizer.decode([ids]) == [text]
        batch = {"token_ids": ids[None]}
        found = model(batch)
        np.testing.assert_allclose(found["logits"], outputs[f"gpt2/{number}/logits"], 1e-5, 1e-5)
        loss = model.compute_loss(x=batch, y_pred=found)
        perplexity = np.exp(outputs[f"gpt2/{number}/loss"])
        np.testing.assert_allclose(np.exp(array(loss)), perplexity, 1e-5)


def test_gpt2_equals_keras_hub():
    saved = read_ready(KERAS_HUB)
    model = saved.make_model()
    with np.load(KERAS_HUB / "outputs.npz", allow_pickle=False) as found:
        for number in range(3):
            ids, _ = saved.tokenizer.encode([str(found[f"{number}/text"])])
            np.testing.assert_array_equal(ids[None], found[f"{number}/ids"])
            np.testing.assert_allclose(
                model({"token_ids": ids[None]})["logits"], found[f"{number}/logits"], 1e-5, 1e-5
            )


@pytest.mark.parametrize("name", ["xlnet", "xlnet_memory"])
def test_xlnet_predicts_every_token_as_transformers(outputs, name):
    saved = read_ready(MODELS / name)
    model = saved.make_model()
    backbone = model.backbone
    for number, (text, pair) in enumerate(PAIRS):
        batch = rows_of(saved, [(text, pair)])
        real = outputs[f"{name}/attention_mask"][number] > 0  # transformers pads XLNet on the left
        np.testing.assert_array_equal(
            batch["token_ids"][0], outputs[f"{name}/input_ids"][number][real]
        )
        found = backbone(batch)["sequence_output"]
        logits = backbone.token_products(found) + model.output_bias
        padded = outputs[f"{name}/logits"][number]
        np.testing.assert_allclose(array(logits)[0], padded[real], 1e-5, 1e-5)
    assert saved.architecture["memory_length"] == (512 if name == "xlnet" else 4)


def rows_of(saved, pairs):
    texts, seconds = zip(*pairs, strict=True)
    layout = saved.tokenizer.row_layout
    ids = [saved.tokenizer.encode([text])[0] for text in (*texts, *seconds)]
    first, second = ids[: len(texts)], ids[len(texts) :]
    row = [*first[0], *layout.between, *second[0], *layout.after]
    segments = [0] * (len(first[0]) + 1) + [1] * (len(second[0]) + 1) + [2]
    return {"token_ids": np.array([row], "int32"), "segment_ids": np.array([segments], "int32")}


def test_an_xlnet_classifier_predicts_as_in_transformers(outputs, tmp_path):
    expected = outputs["xlnet_classifier/logits"]
    expected = np.exp(expected - expected.max(1, keepdims=True))
    expected /= expected.sum(1, keepdims=True)
    convert.convert(MODELS / "xlnet_classifier", tmp_path / "run")
    for folder in (MODELS / "xlnet_classifier", tmp_path / "run"):
        predictor = load(str(folder))
        assert predictor.labels == ["bad", "good", "so so"]
        np.testing.assert_allclose(predictor.probabilities(PAIRS), expected, 1e-5, 1e-5)


@pytest.mark.parametrize("name", FOLDERS)
def test_transformers_to_workdir_and_back_is_bitwise_identical(name, tmp_path):
    convert.convert(MODELS / name, tmp_path / "run")
    convert.convert(tmp_path / "run", tmp_path / "back", "huggingface")
    assert_same_bits(tensors(tmp_path / "back"), tensors(MODELS / name))
    was, now = (
        json.loads((folder / "config.json").read_text())
        for folder in (MODELS / name, tmp_path / "back")
    )
    for field in now.keys() & was.keys():
        assert was[field] is None or now[field] == was[field], field
    first, second = (convert.read(folder) for folder in (MODELS / name, tmp_path / "back"))
    for field in ("kind", "architecture", "heads", "files"):
        assert getattr(first, field) == getattr(second, field), field
    assert first.tokenizer.sha256 == second.tokenizer.sha256


def test_keras_hub_to_workdir_and_back_is_bitwise_identical(tmp_path):
    convert.convert(KERAS_HUB, tmp_path / "run")
    convert.convert(tmp_path / "run", tmp_path / "back", "kerashub")
    found, expected = {}, {}
    for arrays, folder in ((found, tmp_path / "back"), (expected, KERAS_HUB)):
        with h5py.File(folder / "model.weights.h5") as file:
            file.visititems(
                lambda name, entry, arrays=arrays: arrays.update(
                    {name: entry[()]} if hasattr(entry, "shape") else {}
                )
            )
    assert_same_bits(found, expected)
    for name in ("vocabulary.json", "merges.txt"):
        was, now = (
            (folder / "assets/tokenizer" / name).read_text().split()
            for folder in (KERAS_HUB, tmp_path / "back")
        )
        assert (
            json.loads("".join(was)) == json.loads("".join(now)) if name[0] == "v" else was == now
        )


@pytest.fixture
def openai(tmp_path):
    tokenizer = read_ready(MODELS / "gpt2").tokenizer
    folder = write_checkpoint(
        tmp_path / "openai",
        "model.ckpt",
        openai_weights(tokenizer.vocabulary_size),
        "hparams.json",
        {
            "n_vocab": tokenizer.vocabulary_size,
            "n_ctx": 16,
            "n_embd": 12,
            "n_head": 3,
            "n_layer": 2,
        },
    )
    tokenizer.without_padding_rows().write(folder, ("encoder.json", "vocab.bpe"))
    return folder


def test_openai_to_transformers_and_back_is_bitwise_identical(openai, tmp_path):
    convert.convert(openai, tmp_path / "hf", "huggingface")
    weights = weights_of(openai / "model.ckpt")
    found = tensors(tmp_path / "hf")
    assert len(found) == len(weights)
    for name, value in weights.items():
        # The names in `transformers`.
        name = re.sub(r"/h(\d+)/", r"/h/\1/", name).replace("model/", "transformer.")
        name = re.sub(r"/[gw]$", ".weight", re.sub(r"/b$", ".bias", name))
        name = re.sub(r"\.(wte|wpe)$", r".\1.weight", name).replace("/", ".")
        np.testing.assert_array_equal(
            found[name], np.squeeze(value, 0) if value.ndim == 3 else value, err_msg=name
        )
    convert.convert(tmp_path / "hf", tmp_path / "run")
    convert.convert(tmp_path / "run", tmp_path / "back", "openai")
    assert_same_bits(weights_of(tmp_path / "back" / "model.ckpt"), weights)
    for name in ("hparams.json", "encoder.json", "vocab.bpe"):
        was, now = ((folder / name).read_text() for folder in (openai, tmp_path / "back"))
        assert json.loads(was) == json.loads(now) if name.endswith("json") else was == now, name


def test_zihangdai_to_transformers_and_back_is_bitwise_identical(tmp_path):
    tokenizer = read_ready(MODELS / "xlnet").tokenizer
    weights = xlnet_weights(tokenizer.vocabulary_size)
    folder = write_checkpoint(
        tmp_path / "google",
        "xlnet_model.ckpt",
        weights,
        "xlnet_config.json",
        {
            "d_head": 4,
            "d_inner": 20,
            "d_model": 12,
            "ff_activation": "gelu",
            "n_head": 3,
            "n_layer": 2,
            "n_token": tokenizer.vocabulary_size,
            "untie_r": True,
        },
        slots=("Adam", "Adam_1"),
    )
    tokenizer.write(folder)
    convert.convert(folder, tmp_path / "hf", "huggingface")
    found = tensors(tmp_path / "hf")
    for name in ("r_w_bias", "r_r_bias", "r_s_bias", "seg_embed"):
        for layer in range(2):
            np.testing.assert_array_equal(
                found[f"transformer.layer.{layer}.rel_attn.{name}"],
                weights[f"model/transformer/{name}"][layer],
            )
    for name in ("q", "k", "v", "o", "r"):
        np.testing.assert_array_equal(
            found[f"transformer.layer.1.rel_attn.{name}"],
            weights[f"model/transformer/layer_1/rel_attn/{name}/kernel"],
        )
    np.testing.assert_array_equal(
        found["transformer.layer.1.ff.layer_2.weight"],
        weights["model/transformer/layer_1/ff/layer_2/kernel"].T,
    )
    np.testing.assert_array_equal(
        found["transformer.layer.0.ff.layer_norm.weight"],
        weights["model/transformer/layer_0/ff/LayerNorm/gamma"],
    )
    assert json.loads((tmp_path / "hf/config.json").read_text())["ff_activation"] == "gelu_new"
    convert.convert(tmp_path / "hf", tmp_path / "run")
    convert.convert(tmp_path / "run", tmp_path / "back", "google")
    assert_same_bits(weights_of(tmp_path / "back" / "xlnet_model.ckpt"), weights)
    convert.convert(
        tmp_path / "back", tmp_path / "again"
    )  # from a folder that contains do_lower_case
    assert not convert.read(tmp_path / "again").lowercase
    with pytest.raises(UserError, match="lowercase=True differs from"):
        convert.convert(tmp_path / "back", tmp_path / "other", lowercase=True)
    convert.convert(folder, tmp_path / "lower", lowercase=True)
    assert convert.read(tmp_path / "lower").tokenizer.lowercase


def test_a_folder_like_gpt2_on_the_hub_is_read(tmp_path):
    """It has names without prefix, causal masks, and a copy of the head."""
    folder = copied("gpt2", tmp_path, architectures=["GPT2Model"])
    arrays = {
        name.removeprefix("transformer."): value for name, value in tensors(MODELS / "gpt2").items()
    }
    arrays["h.0.attn.bias"] = np.tril(np.ones((1, 1, 64, 64), np.float32))
    arrays["lm_head.weight"] = arrays["wte.weight"]
    save_file(arrays, folder / "model.safetensors")
    read_ready(folder).tokenizer.write(folder)
    (folder / "tokenizer.json").unlink()
    first, second = convert.read(folder), convert.read(MODELS / "gpt2")
    assert first.architecture == second.architecture
    assert first.tokenizer.sha256 == second.tokenizer.sha256
    for path, value in second.weights.items():
        np.testing.assert_array_equal(first.weights[path], value, err_msg=path)
    arrays["lm_head.weight"] = arrays["wte.weight"] + 1
    save_file(arrays, folder / "model.safetensors")
    with pytest.raises(UserError, match=r"lm_head.weight must be equal to wte.weight"):
        convert.read(folder)


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_an_xlnet_without_a_head_has_an_output_bias_of_zero(prefix, tmp_path):
    folder = copied("xlnet", tmp_path, architectures=["XLNetModel"])
    arrays = {
        name.replace("transformer.", prefix): value
        for name, value in tensors(MODELS / "xlnet").items()
        if name != "lm_loss.bias"
    }
    save_file(arrays, folder / "model.safetensors")
    convert.convert(folder, tmp_path / "back", "huggingface")
    expected = tensors(MODELS / "xlnet")
    expected["lm_loss.bias"] = np.zeros_like(expected["lm_loss.bias"])
    assert_same_bits(tensors(tmp_path / "back"), expected)
    assert convert.read(tmp_path / "back").architecture == convert.read(folder).architecture
    del arrays[f"{prefix}mask_emb"]
    save_file(arrays, folder / "model.safetensors")
    with pytest.raises(UserError, match="Missing: .*mask_emb"):
        convert.read(folder)


@pytest.mark.runs
def test_a_gpt2_of_transformers_continues_text_and_is_finetuned(tmp_path):
    generator = load(str(MODELS / "gpt2"))
    [found] = generator.generate(["the cat"], max_tokens=4, seed=1)
    assert isinstance(found, str)
    table = tmp_path / "rows.tsv"
    table.write_text(
        "text\tlabel\n"
        + "".join(
            f"the {word} sat {number}\t{word}\n" for number in range(8) for word in ("cat", "rat")
        )
    )
    for name in ("gpt2", "xlnet"):
        config = finetuning_defaults()
        config.data.update(train=str(table), text="text", label="label", length=12, holdout=0.25)
        config.train.update(steps=2, batch_size=4, learning_rate=1e-4)
        finetune(config, workdir=str(tmp_path / name), pretrained=str(MODELS / name))
        assert load(str(tmp_path / name)).labels == ["cat", "rat"]
        path = f"{name}/token_embedding"
        was, now = (
            convert.read(folder).weights[path] for folder in (MODELS / name, tmp_path / name)
        )
        assert 0 < np.abs(np.asarray(was) - now).max() < 1e-3  # two small steps


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


def test_half_precision_becomes_float32(tmp_path):
    folder = copied("gpt2", tmp_path)
    halves = {name: value.astype("float16") for name, value in tensors(folder).items()}
    save_file(halves, folder / "model.safetensors")
    for path, value in convert.read(folder).weights.items():
        assert np.asarray(value).dtype == np.float32, path
    np.testing.assert_array_equal(
        convert.read(folder).weights["gpt2/token_embedding"],
        halves["transformer.wte.weight"].astype("float32"),
    )


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
