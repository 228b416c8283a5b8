"""Folders of sentence-transformers: embeddings equal theirs, in all formats."""

import json
import shutil

import huggingface_hub
import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_attn import convert, load
from keras_attn.errors import UserError
from keras_attn.inference.embed_files import embed_texts
from tests.support.quick import quick
from tests.support.sentence_transformers_folders import (
    GOLDEN,
    NAMES,
    PROMPTS,
    QUERY,
    TEXTS,
    edit,
    make_folder,
)


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN / "sentence_transformers/outputs.npz", allow_pickle=False) as file:
        return dict(file)


def assert_golden(model, name, golden):
    for number, prompt in enumerate(PROMPTS.get(name, (None,))):
        expected = golden[f"{name}/{number}"]
        found = model.embed(TEXTS, prompt=prompt, batch_size=2)
        np.testing.assert_allclose(found, expected, 1e-5, 1e-5, err_msg=f"{name}, {prompt}")


@pytest.mark.parametrize("name", quick(NAMES, "several"))
def test_embeddings_equal_theirs_also_from_a_workdir_and_from_an_exported_folder(
    name, golden, tmp_path
):
    folder = make_folder(tmp_path / "model", name)
    assert_golden(load(folder), name, golden)
    assert convert.detect(str(folder)) == ("bert", "sentence_transformers")
    convert.convert(folder, tmp_path / "run")
    assert_golden(load(tmp_path / "run"), name, golden)
    convert.convert(tmp_path / "run", tmp_path / "exported", "sentence_transformers")
    assert_golden(load(tmp_path / "exported"), name, golden)
    for file in folder.rglob("*.safetensors"):
        exported = load_file(tmp_path / "exported" / file.relative_to(folder))
        expected = load_file(file)
        assert exported.keys() == expected.keys()
        for key, value in expected.items():
            assert exported[key].tobytes() == value.tobytes(), key


def test_a_given_pooling_replaces_the_head(golden, tmp_path):
    model = load(make_folder(tmp_path / "model", "dense"))
    plain = load(GOLDEN / "hugging_face/encoder")
    for pooling in ("mean", "cls"):
        found = model.embed(TEXTS, pooling)
        np.testing.assert_allclose(found, plain.embed(TEXTS, pooling), atol=1e-6)
    np.testing.assert_allclose(plain.embed(TEXTS), plain.embed(TEXTS, "mean"), atol=0)
    assert model.embed([]).shape == (0, 7) and model.embed([], "cls").shape == (0, 12)
    with pytest.raises(UserError, match="pooling must be one of cls, max, .*pooling=median"):
        model.embed(TEXTS, "median")


def test_long_texts_are_cut_at_the_length_of_the_folder_and_counted(tmp_path, capsys):
    folder = make_folder(tmp_path / "model", "max")
    model = load(folder)
    long = TEXTS[-1]
    cut = " ".join(long.split()[:5])  # 7 tokens with [CLS] and [SEP]
    np.testing.assert_allclose(*model.embed([long, cut]), atol=1e-6)
    assert model.cut == {7: 1}
    embed_texts(str(folder), [long], str(tmp_path / "x.npy"))
    assert "1 text was truncated to the maximum length of 7 tokens" in capsys.readouterr().err


def test_lengths_come_from_the_tokenizer_and_are_bounded_by_the_positions(tmp_path):
    folder = make_folder(tmp_path / "model", "cls")
    for length, expected in ((10**30, 16), (9, 9), (None, 16), (100, 16)):
        edit(folder / "tokenizer_config.json", model_max_length=length)
        assert load(folder).max_length == expected
    edit(folder / "sentence_bert_config.json", max_seq_length=5)
    assert load(folder).max_length == 5


def test_a_prompt_is_a_name_or_a_text(tmp_path):
    folder = make_folder(tmp_path / "model", "cls")
    model = load(folder)
    np.testing.assert_array_equal(model.embed(["a"]), model.embed(["a"], prompt=QUERY))
    np.testing.assert_array_equal(model.embed(["a"]), model.embed([QUERY + "a"], prompt=""))
    with pytest.raises(UserError, match="prompt must be document, query or .*Did you mean query?"):
        model.embed(["a"], prompt="qurey")
    with pytest.raises(UserError, match="prompt must be a string. Received: prompt=3"):
        model.embed(["a"], prompt=3)
    embed_texts(str(folder), ["a"], str(tmp_path / "x.npy"), prompt="")
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), model.embed(["a"], prompt=""))
    plain = load(GOLDEN / "hugging_face/encoder")
    np.testing.assert_array_equal(plain.embed(["a"], prompt="b: "), plain.embed(["b: a"]))
    with pytest.raises(UserError, match="prompt must be a text that ends in a space"):
        plain.embed(["a"], prompt="query")


def test_a_transformer_in_a_folder_of_its_own_is_read(golden, tmp_path):
    """As the first versions wrote it."""
    folder = make_folder(tmp_path / "model", "dense")
    (folder / "0_Transformer").mkdir()
    files = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    for name in (*files, "sentence_bert_config.json"):
        (folder / name).rename(folder / "0_Transformer" / name)
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    assert_golden(load(folder), "dense", golden)


def test_other_formats_have_the_encoder_alone_and_say_so(tmp_path, capsys):
    folder = make_folder(tmp_path / "model", "dense")
    convert.convert(folder, tmp_path / "plain", "huggingface")
    message = capsys.readouterr().err
    assert "without pooling=mean, dense 7 (tanh), normalize; --format" in message
    found, expected = load(tmp_path / "plain"), load(GOLDEN / "hugging_face/encoder")
    np.testing.assert_allclose(found.embed(TEXTS), expected.embed(TEXTS), atol=1e-6)
    convert.convert(folder, tmp_path / "encoder", "workdir", task="encoder")
    assert convert.read(tmp_path / "encoder").kind == "encoder"


@pytest.mark.parametrize("name", quick(["encoder", "classifier"], "classifier"))
def test_models_without_an_embedding_head_are_exported_with_mean_pooling(name, tmp_path):
    source = GOLDEN / "hugging_face" / name
    convert.convert(source, tmp_path / "model", "sentence_transformers")
    pooling = json.loads((tmp_path / "model/1_Pooling/config.json").read_text())
    assert [key for key, value in pooling.items() if value is True] == [
        "pooling_mode_mean_tokens",
        "include_prompt",
    ]
    found, expected = load(tmp_path / "model"), load(source)
    np.testing.assert_allclose(found.embed(TEXTS), expected.embed(TEXTS), atol=1e-6)
    assert found.max_length == expected.max_length


def test_modules_of_other_families_are_not_used_and_a_warning_says_so(tmp_path, capsys):
    shutil.copytree(GOLDEN / "language_models/gpt2", tmp_path / "model")
    modules = GOLDEN / "sentence_transformers/cls/modules.json"
    shutil.copy(modules, tmp_path / "model")
    assert convert.detect(str(tmp_path / "model")) == ("gpt2", "huggingface")
    assert "modules.json of" in capsys.readouterr().err


def test_export_requires_an_embedding_head(tmp_path):
    folder = make_folder(tmp_path / "model", "dense")
    with pytest.raises(UserError, match="task must be embedding for format=sentence_transformers"):
        convert.convert(folder, tmp_path / "x", "sentence_transformers", task="encoder")
    assert not (tmp_path / "x").exists()


def test_a_pre_norm_model_is_exported_and_read(tmp_path):
    source = GOLDEN / "workdirs_0_1/bert"
    convert.convert(source, tmp_path / "model", "sentence_transformers")
    config = json.loads((tmp_path / "model/config.json").read_text())
    assert config["model_type"] == "roberta-prelayernorm"
    found, expected = load(tmp_path / "model"), load(source)
    np.testing.assert_allclose(found.embed(TEXTS), expected.embed(TEXTS), atol=1e-6)
    assert found.max_length == expected.max_length


def test_the_folders_of_modules_are_downloaded_from_the_hub(golden, tmp_path, monkeypatch):
    """From a cache of huggingface_hub, which consists of links, without a network."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    cached = tmp_path / "models--someone--embedder"
    make_folder(cached / "snapshots" / commit, "dense")
    (cached / "refs").mkdir()
    (cached / "refs/main").write_text(commit)
    dense = cached / "snapshots" / commit / "2_Dense/model.safetensors"
    (cached / "blobs").mkdir()
    shutil.move(dense, cached / "blobs/1")
    dense.symlink_to(cached / "blobs/1")
    download, wanted = huggingface_hub.snapshot_download, []
    files = [
        "1_Pooling/config.json",
        "2_Dense/model.safetensors",
        "2_Dense/pytorch_model.bin",
        "onnx/config.json",
        "modules.json",
    ]

    def offline(*args, **options):
        patterns = {name: options.get(name) for name in ("allow_patterns", "ignore_patterns")}
        wanted.append(list(huggingface_hub.utils.filter_repo_objects(files, **patterns)))
        return download(*args, **options, cache_dir=tmp_path, local_files_only=True)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    assert_golden(load("hf:someone/embedder"), "dense", golden)
    assert wanted == [["modules.json"], files[:2]]
