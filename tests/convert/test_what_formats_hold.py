"""Models that a format of another library does not support are rejected."""

import json
import pathlib

import numpy as np
import pytest

from keras_attn import convert, load
from keras_attn.errors import UserError

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
MODELS = GOLDEN / "language_models"


@pytest.mark.parametrize(
    "name, format, message",
    [
        ("gpt2", "google", "format must be one of workdir, huggingface, kerashub, openai for gpt2"),
        ("xlnet", "kerashub", "format must be one of workdir, huggingface, google for xlnet"),
        ("gpt2", "openai", "intermediate_dim / hidden_dim=4.0"),
        ("xlnet", "google", "activations gelu_tanh, relu"),
        ("xlnet_memory", "google", "supports only XLNet models with max_distance=None"),
        ("xlnet_classifier", "google", "supports only permutation language models"),
    ],
)
def test_unsupported_models_are_rejected(name, format, message, tmp_path):
    with pytest.raises(UserError, match=message):
        convert.convert(MODELS / name, tmp_path / "out", format)
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match="task must be one of embedding. Received: task=encoder"):
        convert.convert(MODELS / name, tmp_path / "out", task="encoder")


@pytest.mark.parametrize("name", ["gpt2", "xlnet"])
def test_a_language_model_becomes_an_embedding_model(name, tmp_path):
    convert.convert(MODELS / name, tmp_path / "out", task="embedding")
    first, second = (load(str(folder)).model for folder in (MODELS / name, tmp_path / "out"))
    ids = np.array([[1, 2, 3, 4]], "int32")
    batch = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    hidden = np.asarray(first.backbone(batch)["sequence_output"])
    np.testing.assert_allclose(second(batch)["embedding"], hidden.mean(axis=1), atol=1e-5)


@pytest.mark.parametrize(
    "folder, format",
    [
        (MODELS / "gpt2", "kerashub"),
        (MODELS / "xlnet", "huggingface"),
        (GOLDEN / "keras_hub", "kerashub"),
    ],
    ids=["gpt2", "xlnet", "bert"],
)
def test_a_second_dropout_rate_is_not_lost(folder, format, tmp_path):
    convert.convert(folder, tmp_path / "run")
    path = tmp_path / "run" / "config.json"
    found = json.loads(path.read_text())
    found["architecture"]["attention_dropout"] = 0.3
    path.write_text(json.dumps(found))
    with pytest.raises(UserError, match="attention_dropout=0.* Received: attention_dropout=0.3"):
        convert.convert(tmp_path / "run", tmp_path / "out", format)
    assert not (tmp_path / "out").exists()
    found["architecture"]["attention_dropout"] = None  # equal to dropout
    path.write_text(json.dumps(found))
    convert.convert(tmp_path / "run", tmp_path / "out", format)
