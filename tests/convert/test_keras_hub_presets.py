"""Presets of RoBERTa, DistilBERT and ELECTRA of KerasHub: ids, outputs and round trips."""

import json
import pathlib

import h5py
import numpy as np
import pytest

from keras_attn import convert
from keras_attn.convert import read_ready
from keras_attn.errors import UserError
from tests.support.transformers_folders import check_same_bits

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
PRESETS = GOLDEN / "keras_hub_encoders"
NAMES = ["distilbert", "electra", "electra_square", "roberta"]
# The pooler of ElectraBackbone, which our encoder lacks.
POOLERS = {
    "electra": ("layers/dense_1/vars/0", "layers/dense_1/vars/1"),
    "electra_square": ("layers/dense/vars/0", "layers/dense/vars/1"),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_of_keras_hub_has_its_ids_and_outputs(name):
    saved = read_ready(PRESETS / name)
    model = saved.make_model()
    with np.load(PRESETS / "outputs.npz", allow_pickle=False) as found:
        for number in range(3):
            ids, _ = saved.tokenizer.encode([str(found[f"{name}/{number}/text"])])
            np.testing.assert_array_equal(ids[None], found[f"{name}/{number}/ids"])
            segments = ids[None] % 2 if "electra" in name else np.zeros_like(ids)[None]
            np.testing.assert_allclose(
                model({"token_ids": ids[None], "segment_ids": segments})["sequence_output"],
                found[f"{name}/{number}/sequence_output"],
                1e-5,
                1e-5,
            )


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_to_a_workdir_and_back_is_bitwise_identical(name, tmp_path):
    convert.convert(PRESETS / name, tmp_path / "run")
    convert.convert(tmp_path / "run", tmp_path / "back", "kerashub")
    found, expected = (tensors_of(folder) for folder in (tmp_path / "back", PRESETS / name))
    for tensor in POOLERS.get(name, ()):
        assert found.pop(tensor).shape == expected.pop(tensor).shape
    check_same_bits(found, expected)
    for path in (PRESETS / name / "assets" / "tokenizer").iterdir():
        copy = tmp_path / "back" / "assets" / "tokenizer" / path.name
        same = json.loads if path.suffix == ".json" else str.split
        assert same(copy.read_text()) == same(path.read_text())
    for file in ("config.json", "tokenizer.json"):
        was, now = (
            json.loads((folder / file).read_text())
            for folder in (PRESETS / name, tmp_path / "back")
        )
        assert now.pop("config").keys() <= was.pop("config").keys() and now == was


def tensors_of(folder):
    arrays = {}
    with h5py.File(folder / "model.weights.h5") as file:
        file.visititems(
            lambda key, entry: arrays.update({key: entry[()]} if hasattr(entry, "shape") else {})
        )
    return arrays


def test_the_pooler_of_an_electra_is_newly_initialized(tmp_path):
    source = GOLDEN / "electra" / "discriminator"  # with the GELU of KerasHub
    convert.convert(source, tmp_path / "preset", "kerashub", task="encoder")
    kernel, bias = (tensors_of(tmp_path / "preset")[name] for name in POOLERS["electra"])
    assert kernel.shape == (12, 12) and abs(np.std(kernel) - 0.02) < 0.004 and not bias.any()
    with pytest.raises(UserError, match="KerasHub supports only ELECTRA .* activation=gelu_tanh"):
        convert.convert(GOLDEN / "electra" / "encoder", tmp_path / "no", "kerashub")


def test_released_versions_of_keras_hub_have_no_modernbert(tmp_path):
    with pytest.raises(UserError, match="format must be .* KerasHub 0.32 has no ModernBERT"):
        convert.convert(GOLDEN / "modernbert" / "encoder", tmp_path / "no", "kerashub")
