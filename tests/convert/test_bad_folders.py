"""Invalid, damaged and malicious folders are rejected in one line, and nothing is written."""

import importlib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import zipfile

import h5py
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_attn import convert
from keras_attn.errors import UserError
from tests.support.google_folders import google_weights, write_google

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(GOLDEN / "hugging_face/pretraining", tmp_path / "model")
    return tmp_path / "model"


def refused(folder, message):
    with pytest.raises(UserError, match=message) as error:
        convert.convert(folder, folder.parent / "out")
    assert "\n" not in str(error.value)
    assert not (folder.parent / "out").exists()


def edit(path, **fields):
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def header_of(path):
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8 : 8 + size]), content[8 + size :]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"model_type": "camembert"},
            "model_type must be one of bert, roberta-prelayernorm, .*xlnet.* Received: 'camembert'",
        ),
        (
            {"architectures": ["GPT2LMHeadModel"]},
            "architectures must name one of BertForPreTraining",
        ),
        ({"architectures": None}, "architectures must name one"),
        ({"hidden_act": "swish"}, "hidden_act must be one of gelu, .*'swish'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type must be absolute"),
        ({"is_decoder": True}, "is_decoder must be False"),
        (
            {"hidden_size": 24},
            "word_embeddings.weight must have shape .45, 24.. Received: .45, 12.",
        ),
        ({"hidden_size": "12"}, "hidden_dim must be an integer"),
        ({"hidden_size": True}, "hidden_dim must be an integer"),
        ({"hidden_size": 13}, "hidden_dim must be a multiple of num_heads"),
        ({"num_hidden_layers": 10**9}, "num_layers exceeds the number of layers in the weights"),
        ({"num_hidden_layers": 3}, "Missing: bert.encoder.layer.2"),
        ({"num_hidden_layers": 1}, "unknown: bert.encoder.layer.1"),
        ({"vocab_size": -1}, "vocabulary_size must be an integer of at least 0"),
        ({"vocab_size": 44}, "must have shape"),
        ({"hidden_dropout_prob": 2}, "dropout"),
        ({"layer_norm_eps": float("nan")}, "layer_norm_epsilon must be a number"),
        ({"initializer_range": 1e308}, "initializer_range must be a number"),
        (
            {"classifier_dropout": 2, "architectures": ["BertForSequenceClassification"]},
            r"classifier_dropout must be in \[0, 1\)",
        ),
        ({"architectures": ["BertForSequenceClassification"]}, "Missing: classifier.bias"),
    ],
    ids=str,
)
def test_an_invalid_config_is_rejected(folder, fields, message):
    edit(folder / "config.json", **fields)
    refused(folder, message)


def test_damaged_tensors_are_rejected(folder):
    path = folder / "model.safetensors"
    content, (header, data) = path.read_bytes(), header_of(path)
    for size in (0, 7, 8, 100, len(content) - 1):
        path.write_bytes(content[:size])
        refused(folder, "Cannot read .*model.safetensors: not a complete safetensors file")
    path.write_bytes(struct.pack("<Q", 2**62) + content[8:])
    refused(folder, "not a complete safetensors file")
    huge = {
        **header,
        "bert.pooler.dense.bias": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]},
    }
    text = json.dumps(huge).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    refused(folder, "not a complete safetensors file")
    path.write_bytes(content)
    arrays = load_file(path)
    name = "bert.pooler.dense.weight"
    for changed, message in (
        ({**arrays, name: arrays[name][:, :-1].copy()}, f"{name} must have shape"),
        ({**arrays, name: arrays[name].astype(np.int32)}, f"{name} must be one of float32.*I32"),
        ({**arrays, "extra": arrays[name]}, "Missing: none; unknown: extra"),
        ({key: value for key, value in arrays.items() if key != name}, f"Missing: {name}; unk"),
        ({**arrays, "cls.predictions.decoder.weight": arrays[name]}, "must be equal to"),
    ):
        save_file(changed, path)
        refused(folder, message)


def test_tensors_of_other_dtypes_are_rejected(folder):
    """Also if the file contains a copy of the embedding matrix, as old files do."""
    path = folder / "model.safetensors"
    header, data = header_of(path)
    table = header["bert.embeddings.word_embeddings.weight"]
    size = (table["data_offsets"][1] - table["data_offsets"][0]) // 4
    table["dtype"], start = "F8_E4M3", table["data_offsets"][0]
    table["data_offsets"] = [start, start + size]
    kept, place = b"", 0
    for name in sorted(set(header) - {"__metadata__"}, key=lambda n: header[n]["data_offsets"]):
        first, last = header[name]["data_offsets"]
        header[name]["data_offsets"] = [place, place + last - first]
        kept, place = kept + data[first:last], place + last - first
    header["cls.predictions.decoder.weight"] = {**table, "data_offsets": [place, place + size]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + kept + bytes(size))
    refused(folder, "word_embeddings.weight must be one of float32, .*F8_E4M3")


def test_damaged_checkpoints_of_google_are_rejected(tmp_path):
    folder = write_google(tmp_path / "google", google_weights())
    data = folder / "bert_model.ckpt.data-00000-of-00001"
    content = data.read_bytes()
    for size in (0, len(content) // 2, len(content) - 1):
        data.write_bytes(content[:size])
        refused(folder, "not a complete TensorFlow checkpoint.*bytes")
    data.write_bytes(content)
    (folder / "bert_model.ckpt.index").write_bytes(b"no index")
    refused(folder, "not a complete TensorFlow checkpoint")


def test_a_workdir_whose_config_does_not_match_its_arrays_is_rejected(folder, tmp_path):
    run = tmp_path / "run"
    convert.convert(folder, run)
    config = json.loads((run / "config.json").read_text())
    for name, value, message in (
        ("vocabulary_size", 20_000_000, "a token for each row.*45 tokens, 20,000,000 rows"),
        ("vocabulary_size", 1e308, "vocabulary_size must be an integer"),
        ("num_layers", 300_000, "num_layers exceeds the number of layers"),
        ("num_layers", 2.5, "num_layers must be an integer"),
        ("layer_norm_epsilon", "x", "layer_norm_epsilon must be a number"),
        ("max_length", 7, "position_embedding/embeddings must be float32 .7, 12.. Received: "),
        ("num_layers", 3, "layer_2/.* must be float32 .*Received: absent"),
        ("num_layers", 1, "layer_1/.* must be absent. Received: float32"),
    ):
        (run / "config.json").write_text(
            json.dumps({**config, "architecture": {**config["architecture"], name: value}})
        )
        with pytest.raises(UserError, match=message):
            list(convert.read(run).weights)


@pytest.mark.parametrize("compressed", [True, False])
def test_a_checkpoint_of_another_hidden_size_is_rejected(folder, tmp_path, compressed, capsys):
    convert.convert(folder, tmp_path / "run")
    path = tmp_path / "run/checkpoints/step-0.npz"
    if compressed:
        np.savez_compressed(path, **np.load(path))
    else:
        with zipfile.ZipFile(path, "a") as file, file.open("huge.npy", "w") as member:
            np.lib.format.write_array_header_1_0(
                member, {"descr": "<f4", "fortran_order": False, "shape": (10**12,)}
            )
    with pytest.raises(UserError, match="has no complete checkpoint"):
        list(convert.read(tmp_path / "run").weights)
    assert ("is compressed" if compressed else "huge.npy is incomplete") in capsys.readouterr().err


def test_pickles_are_rejected_with_advice(folder):
    os.remove(folder / "model.safetensors")
    refused(folder, "lacks model.safetensors; pickles are neither read")
    (folder / "optimizer.pt").write_bytes(b"\x80\x04cos\nsystem\n")
    strange = folder / "x'); import os; ('.bin"
    strange.write_bytes(b"")
    refused(strange, r"is a pickle, which can run code.*glob.glob\('FILE'\)")
    for name, shown in (
        ("pytorch_model-00001-of-00002.bin", "pytorch_model-*.bin"),
        ("pytorch_model.bin", "pytorch_model.bin"),
    ):
        for path in (folder, folder / name):
            (folder / name).write_bytes(b"\x80\x04cos\nsystem\n")
            refused(
                path,
                rf"/{name} is a pickle, which can run code.*glob.glob\('{re.escape(shown)}'\).*"
                "weights_only=True",
            )
        os.remove(folder / name)


def test_a_checkpoint_of_objects_is_rejected_with_advice(folder, tmp_path, capsys):
    convert.convert(folder, tmp_path / "run")
    path = tmp_path / "run/checkpoints/step-0.npz"
    arrays = dict(np.load(path))
    np.savez(path, **{**arrays, "model/bert_pretrainer/mlm_bias": np.array([{}], object)})
    with pytest.raises(UserError, match="has no complete checkpoint"):
        list(convert.read(tmp_path / "run").weights)
    assert (
        "pickled Python objects, which are not supported; save numeric arrays"
        in capsys.readouterr().err
    )


OUTSIDE = ["../model.safetensors", "/etc/passwd", "a/b.safetensors", "b.bin"]


@pytest.mark.parametrize("name", OUTSIDE)
def test_an_index_cannot_name_a_file_outside_its_folder(folder, name):
    os.rename(folder / "model.safetensors", folder.parent / "model.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"bert.pooler.dense.bias": name}}))
    refused(folder, "Shards must be .safetensors files in the folder of their index")
    index.write_text(json.dumps({"weight_map": {"a": "model-1.safetensors"}}))
    refused(folder, "Cannot read .*model-1.safetensors: No such file")
    index.write_text("{}")
    refused(folder, "lacks the field weight_map")


def test_an_unsupported_tokenizer_is_rejected(folder):
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    for part, fields, message in (
        ("normalizer", {"strip_accents": False}, "strip_accents=False with lowercase=True"),
        ("normalizer", {"handle_chinese_chars": False}, "handle_chinese_chars=False"),
        ("normalizer", {"type": "Lowercase"}, "BertNormalizer"),
        ("normalizer", {"lowercase": False}, "must agree"),
        ("model", {"type": "BPE"}, "must be WordPiece"),
        ("model", {"vocab": {"a": 0, "b": 2}}, "ids must be consecutive from 0"),
        ("model", {"vocab": {"a": 0, "b": 1}}, "lacks .PAD."),
        ("pre_tokenizer", {"type": "Whitespace"}, "BertPreTokenizer"),
    ):
        path.write_text(json.dumps({**tokenizer, part: {**tokenizer[part], **fields}}))
        refused(folder, message)
    added = [*tokenizer["added_tokens"], {"id": 45, "content": "<user>"}]
    path.write_text(json.dumps({**tokenizer, "added_tokens": added}))
    refused(folder, "must be in the vocabulary.*'<user>'")
    path.write_text(json.dumps(tokenizer))
    config = (folder / "tokenizer_config.json").read_text()
    for fields, message in (
        ({"do_basic_tokenize": False}, "like BERT's.*do_basic_tokenize=False"),
        ({"never_split": ["a"]}, "like BERT's.*never_split="),
        ({"word_tokenizer_type": "mecab"}, "like BERT's.*word_tokenizer_type='mecab'"),
        ({"strip_accents": False}, "must agree.*strip_accents=False and strip_accents="),
        (
            {"added_tokens_decoder": {"45": {"content": "<user>"}}},
            "must be in the vocabulary.*'<user>'",
        ),
        ({"mask_token": "<mask>"}, "special tokens must be .*mask_token='<mask>'"),
    ):
        edit(folder / "tokenizer_config.json", **fields)
        refused(folder, message)
        (folder / "tokenizer_config.json").write_text(config)
    (folder / "added_tokens.json").write_text('{"<user>": 45}')
    refused(folder, "must be in the vocabulary.*'<user>'")
    (folder / "added_tokens.json").write_text('{"[PAD]": 0}')
    assert convert.read(folder).tokenizer.vocabulary[0] == "[PAD]"
    (folder / "special_tokens_map.json").write_text(json.dumps({"cls_token": "<s>"}))
    refused(folder, "special tokens must be .*cls_token='<s>'.*special_tokens_map.json")


def test_a_folder_without_vocabulary_or_lowercase_is_rejected(folder):
    os.remove(folder / "tokenizer.json")
    refused(folder, "lacks the tokenizer: vocab.txt")
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"{n}" for n in range(40))]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    os.remove(folder / "tokenizer_config.json")
    refused(folder, "does not specify whether text is lower-cased")


def test_a_vocabulary_larger_than_the_embedding_matrix_is_rejected_and_a_smaller_one_padded(folder):
    config = json.loads((folder / "tokenizer.json").read_text())
    pieces = list(config["model"]["vocab"])
    os.remove(folder / "tokenizer.json")
    (folder / "vocab.txt").write_text("\n".join([*pieces, "more"]) + "\n")
    refused(folder, "vocabulary must not be larger.*46 tokens, 45 rows")
    (folder / "vocab.txt").write_text("\n".join(pieces[:-2]) + "\n")
    assert convert.read(folder).tokenizer.vocabulary == [*pieces[:-2], "[row 43]", "[row 44]"]


@pytest.mark.parametrize("compressed", [True, False])
def test_a_preset_of_another_hidden_size_is_rejected(tmp_path, compressed):
    shutil.copytree(GOLDEN / "keras_hub", tmp_path / "model")
    path = tmp_path / "model/model.weights.h5"
    name = "layers/reversible_embedding/vars/0"
    with h5py.File(path, "a") as file:
        del file[name]
        options = {"chunks": (1000, 8), "compression": "gzip"} if compressed else {}
        file.create_dataset(name, (10**9, 8), "float32", **options)
    config = json.loads((tmp_path / "model/config.json").read_text())
    config["config"]["vocabulary_size"] = 10**9
    (tmp_path / "model/config.json").write_text(json.dumps(config))
    refused(tmp_path / "model", "uncompressed in the file itself")


def test_unsupported_formats_and_models_are_rejected(folder, tmp_path):
    for name, format, message in (
        ("masked_lm", "google", "use_pooler=True"),
        ("masked_lm", "kerashub", "activation=gelu_tanh"),
        ("pretraining", "kerashub", "task=encoder"),
        ("encoder", "google", "activations gelu_tanh, relu, tanh. Received: activation=gelu_erf"),
        ("encoder", "torch", "format must be one of workdir"),
    ):
        with pytest.raises(UserError, match=message):
            convert.convert(GOLDEN / "hugging_face" / name, tmp_path / "out", format)
    with pytest.raises(UserError, match="no weights for nsp_dense, pooler"):
        convert.convert(GOLDEN / "hugging_face/masked_lm", tmp_path / "out", task="pretraining")
    assert not (tmp_path / "out").exists()
    edit(folder / "config.json", tie_word_embeddings=False, hidden_act="gelu_new")
    arrays = load_file(folder / "model.safetensors")
    table = arrays["bert.embeddings.word_embeddings.weight"]
    save_file({**arrays, "cls.predictions.decoder.weight": table + 1}, folder / "model.safetensors")
    with pytest.raises(UserError, match="tie_embeddings=True. Received: tie_embeddings=False"):
        convert.convert(folder, tmp_path / "out", "google")
    (tmp_path / "file").write_text("")
    for format in ("workdir", "huggingface"):
        with pytest.raises(UserError, match="Cannot convert .*file/out.*Check permissions"):
            convert.convert(folder, tmp_path / "file/out", format)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "missing")
    for target in ("full", "dangling"):
        with pytest.raises(UserError, match="new or empty folder"):
            convert.convert(folder, tmp_path / target)
    with pytest.raises(UserError, match="folder .*nowhere does not exist"):
        convert.convert("nowhere", tmp_path / "out")
    with pytest.raises(UserError, match="A folder with a model is required"):
        convert.read(None)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match="Cannot identify the model in .*model_type"):
        convert.convert(tmp_path, tmp_path / "out")
    for source, target in ((folder, "gs://bucket/x"), ("gs://bucket/x", tmp_path / "out")):
        with pytest.raises(UserError, match="gs://bucket/x must be a local folder"):
            convert.convert(source, target)


@pytest.mark.parametrize(
    ("opened", "files"),
    [
        ("h5py.File", "kerashub_files"),
        ("safetensors.safe_open", "safetensors_files"),
    ],
)
def test_an_error_without_a_message_has_the_name_of_its_class(tmp_path, monkeypatch, opened, files):
    def fail(*args):
        raise OSError

    monkeypatch.setattr(opened, fail)
    path = tmp_path / "model.safetensors"
    path.touch()
    read_tensors = importlib.import_module(f"keras_attn.checkpoints.{files}").read_tensors
    with pytest.raises(UserError, match=r"file \(OSError\)"):
        read_tensors(str(path if opened == "h5py.File" else tmp_path))


@pytest.mark.thorough
def test_a_full_disk_leaves_nothing(folder, tmp_path):
    """A limit of the file size simulates a full disk."""
    edit(folder / "config.json", hidden_act="gelu_new")
    code = (
        "import resource, signal, sys\nfrom keras_attn import convert\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        "source, target, *formats = sys.argv[1:]\n"
        "for format in formats:\n"
        "    try:\n        convert(source, target, format)\n"
        "    except convert.UserError as error:\n        print(error)"
    )
    formats = "workdir", "huggingface", "google"
    done = subprocess.run(
        [sys.executable, "-c", code, folder, tmp_path / "out", *formats],
        capture_output=True,
        text=True,
        cwd=GOLDEN.parents[1],
    )
    errors = done.stdout.splitlines()
    assert len(errors) == len(formats), done.stderr[-2000:]
    for format, error in zip(formats, errors, strict=True):
        wanted = "Cannot write " if format == "workdir" else "Cannot convert "
        assert wanted in error and "File too large" in error
    assert not (tmp_path / "out").exists()


def test_new_heads_are_reported_and_other_weights_are_unchanged(tmp_path):
    source = GOLDEN / "hugging_face/masked_lm"
    new = convert.convert(
        source, tmp_path / "out", "huggingface", task="pretraining", new_heads=True
    )
    assert new == ["nsp_dense", "pooler"]
    found, expected = (load_file(path / "model.safetensors") for path in (tmp_path / "out", source))
    for name, value in expected.items():
        assert found[name].tobytes() == value.tobytes(), name
    left = {name.rsplit(".", 1)[0] for name in found.keys() - expected.keys()}
    assert left == {"bert.pooler.dense", "cls.seq_relationship"}
