"""GPT-2 and XLNet checkpoints of other libraries: outputs equal theirs, and conversions back."""

import json
import re

import h5py
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_attn import convert, finetune, load
from keras_attn.convert import read_ready
from keras_attn.defaults import finetuning_defaults
from keras_attn.errors import UserError
from tests.support.other_families import KERAS_HUB, MODELS, PAIRS, TEXTS, array, copied
from tests.support.tensorflow_folders import (
    weights_of,
    write_checkpoint,
    write_openai,
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
    return write_openai(tmp_path / "openai", read_ready(MODELS / "gpt2").tokenizer)


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
