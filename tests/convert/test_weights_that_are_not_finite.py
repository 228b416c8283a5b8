"""Weights with NaN or infinite values are rejected, in every format and every use."""

import shutil

import h5py
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_attn import convert, load
from keras_attn.convert import read_ready
from keras_attn.errors import UserError
from keras_attn.inference.evaluate import evaluate
from keras_attn.inference.predict_files import predict_texts
from keras_attn.models import GPT2LanguageModel
from keras_attn.training.checkpoints import Checkpoints
from tests.support.google_folders import google_weights, write_google
from tests.support.quick import quick
from tests.support.small_workdirs import GOLDEN, KINDS, write_workdir
from tests.support.tensorflow_folders import openai_weights, write_checkpoint, xlnet_weights

WRONG = [np.nan, np.inf, -np.inf]
WANTED = r"^Cannot use .*: 1 of the [\d,]+ values of .* are NaN or infinite\. Use another"


def spoil_run(folder, value):
    """Sets a value of the newest checkpoint of a workdir."""
    (path,) = (folder / "checkpoints").glob("*.npz")
    arrays = dict(np.load(path))
    name = max((name for name in arrays if name.startswith("model/")), key=lambda n: arrays[n].size)
    arrays[name].flat[-1] = value
    np.savez(path, **arrays)


def spoil_safetensors(folder, value):
    path = folder / "model.safetensors"
    arrays = load_file(path)
    name = next(name for name in arrays if name.endswith(".weight"))
    arrays[name].flat[-1] = value
    save_file(arrays, path)


def spoil_kerashub(folder, value):
    with h5py.File(folder / "model.weights.h5", "r+") as file:
        names = []
        file.visititems(lambda name, entry: names.append(name) if hasattr(entry, "shape") else None)
        array = file[names[0]][()]
        array.flat[-1] = value
        file[names[0]][...] = array


@pytest.mark.parametrize(
    "kind, value",
    quick(
        [(kind, value) for kind in KINDS for value in WRONG],
        *((kind, np.nan) for kind in KINDS),
        ("bert", np.inf),
        ("bert", -np.inf),
    ),
)
def test_a_workdir_with_nan_weights_is_rejected(tmp_path, kind, value):
    folder = write_workdir(kind, tmp_path / "run")
    spoil_run(folder, value)
    with pytest.raises(UserError, match=WANTED):
        load(str(folder))


@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize(
    ("source", "spoil"),
    [
        ("hugging_face/classifier", spoil_safetensors),
        ("language_models/gpt2", spoil_safetensors),
        ("language_models/xlnet_classifier", spoil_safetensors),
        ("keras_hub", spoil_kerashub),
        ("keras_hub_gpt2", spoil_kerashub),
    ],
)
def test_a_checkpoint_of_another_library_with_nan_weights_is_rejected(
    tmp_path, source, spoil, value
):
    folder = tmp_path / "folder"
    shutil.copytree(GOLDEN / source, folder)
    spoil(folder, value)
    with pytest.raises(UserError, match=WANTED):
        for array in convert.read(folder).weights.values():
            np.asarray(array)
    with pytest.raises(UserError, match=WANTED):
        convert.convert(
            folder,
            tmp_path / "out",
            "workdir",
            lowercase=True
            if "gpt2" not in source and "xlnet" not in source and "hub" not in source
            else None,
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.thorough
def test_a_tensorflow_checkpoint_with_nan_weights_is_rejected(tmp_path):
    weights = google_weights()
    weights["cls/predictions/output_bias"][3] = np.nan
    with pytest.raises(UserError, match=WANTED):
        read_ready(write_google(tmp_path / "bert", weights), lowercase=True).sha256  # noqa: B018
    for name, make in (("gpt2", openai_weights), ("xlnet", xlnet_weights)):
        tokenizer = read_ready(GOLDEN / "language_models" / name).tokenizer
        rows = tokenizer.vocabulary_size
        weights = make(rows)
        next(iter(weights.values()))[0, 0] = np.inf
        fields = {"n_vocab": rows, "n_ctx": 16, "n_embd": 12, "n_head": 3, "n_layer": 2}
        config = "hparams.json"
        if name == "xlnet":
            fields = {
                "d_head": 4,
                "d_inner": 20,
                "d_model": 12,
                "ff_activation": "gelu",
                "n_head": 3,
                "n_layer": 2,
                "n_token": rows,
                "untie_r": True,
            }
            config = "xlnet_config.json"
        folder = write_checkpoint(tmp_path / name, f"{name}_model.ckpt", weights, config, fields)
        if name == "gpt2":
            tokenizer.without_padding_rows().write(folder, ("encoder.json", "vocab.bpe"))
        else:
            tokenizer.write(folder)
        with pytest.raises(UserError, match=WANTED):
            convert.convert(folder, tmp_path / "out", "huggingface")


def test_predictions_and_evaluations_write_nothing(tmp_path):
    folder = write_workdir("bert", tmp_path / "run")
    spoil_run(folder, np.nan)
    with pytest.raises(UserError, match=WANTED):
        predict_texts(str(folder), ["the fox"], output=str(tmp_path / "out.jsonl"))
    assert not (tmp_path / "out.jsonl").exists()
    (tmp_path / "rows.tsv").write_text("text\tlabel\nthe fox\tx\n")
    with pytest.raises(UserError, match=WANTED):
        evaluate(str(folder), str(tmp_path / "rows.tsv"))


def test_a_run_neither_resumes_from_them_nor_averages_them(tmp_path):
    checkpoints = Checkpoints(str(tmp_path), keep=2)
    for step, value in ((1, 0.0), (2, np.nan)):
        checkpoints.save(step, {"model/a": np.full(3, value, np.float32)}, {})
    for read in (checkpoints.read_newest, checkpoints.read_best, lambda: checkpoints.read_mean(2)):
        with pytest.raises(UserError, match=r"step-2.npz: 3 of the 3 values of model/a are NaN"):
            read()
    slots = {"model/a": np.zeros(3, np.float32), "optimizer/b": np.array([1, np.inf], np.float32)}
    checkpoints.save(3, slots, {})
    with pytest.raises(UserError, match="1 of the 2 values of optimizer/b"):
        checkpoints.read_newest()


# XLNet's and GPT-2's classifiers predict as BERT's.
@pytest.mark.parametrize("kind", quick(KINDS, "bert"))
def test_finite_weights_with_infinite_products_are_an_error_when_they_are_used(tmp_path, kind):
    folder = write_workdir(kind, tmp_path / "run")
    model = load(str(folder))
    for variable in model.model.variables:
        if "float" in str(variable.dtype):
            variable.assign(np.full(variable.shape, 1e38, np.float32))
    uses = {
        "bert": lambda: model.predict(["the fox"]),
        "xlnet": lambda: model.predict(["the fox"]),
        "gpt2_classifier": lambda: model.predict(["the fox"]),
        "reader": lambda: model.answer("the fox", "the quick brown fox"),
        "gpt2": lambda: model.generate(["the fox"], 3),
        "translator": lambda: model.translate(["the fox"]),
    }
    with pytest.raises(UserError, match="^The outputs of .* are NaN or infinite: its weights are"):
        uses[kind]()
    if kind == "gpt2":
        assert isinstance(model.model, GPT2LanguageModel)
        with pytest.raises(UserError, match="^The outputs of the language model are NaN"):
            model.generate(["the fox"], 3, beam=2)
    if kind in ("bert", "xlnet"):
        with pytest.raises(UserError, match="^The outputs of"):
            model.embed(["the fox"])
