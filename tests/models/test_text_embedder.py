"""Pooling, dense layers and normalization of embeddings."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.models import GPT2, BertEncoder
from keras_attn.models.text_embedder import POOLINGS, EmbeddingHead, TextEmbedder
from tests.support.layer_checks import (
    check_compiled,
    check_config,
    check_gradients,
    check_symbolic_and_file,
    gradients,
    randomize,
    weights_of,
)

LENGTHS = np.array([3, 5, 1])
DENSE = {"type": "dense", "units": 4, "activation": "tanh", "use_bias": True}
MASK = (np.arange(5) < LENGTHS[:, None]).astype("int32")


def _pooled(x, pooling):
    x = np.asarray(x, "float64")
    weights = np.arange(1, len(x) + 1)[:, None]
    return {
        "cls": x[0],
        "lasttoken": x[-1],
        "max": x.max(0),
        "mean": x.mean(0),
        "mean_sqrt_len_tokens": x.sum(0) / np.sqrt(len(x)),
        "weightedmean": (x * weights).sum(0) / weights.sum(),
    }[pooling]


def _unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_head_equals_its_formula(pooling):
    x = np.random.default_rng(0).normal(size=(3, 5, 6)).astype("float32")

    def reference(weights, x, token_mask):
        rows = [_pooled(row[:n], pooling) for row, n in zip(x, LENGTHS, strict=True)]
        return _unit(np.tanh(np.stack(rows) @ weights["dense_0/kernel"] + weights["dense_0/bias"]))

    def make(**kwargs):
        return EmbeddingHead([pooling], [DENSE, {"type": "normalize"}], seed=0, **kwargs)

    inputs, head = {"x": x, "token_mask": MASK}, make(dtype="mixed_bfloat16")
    randomize(head, inputs)
    expected = reference(weights_of(head), x, MASK)
    found = head(**inputs)
    assert keras.backend.standardize_dtype(found.dtype) == "float32"
    np.testing.assert_allclose(ops.convert_to_numpy(found), expected, 1e-5, 1e-5)
    check_config(head, make)
    check_gradients(head, inputs, reference)
    check_symbolic_and_file(head, inputs, {}, expected, 1e-5)
    check_compiled(head, inputs, {}, expected, 1e-5)


def test_poolings_are_concatenated_and_a_mask_selects_the_tokens():
    x = np.random.default_rng(1).normal(size=(3, 5, 6)).astype("float32")
    head = EmbeddingHead(["mean", "cls"])
    found = ops.convert_to_numpy(head(x, 1 - MASK))
    assert found.shape == (3, 12) == head.compute_output_shape((3, 5, 6))
    np.testing.assert_allclose(found[0, :6], x[0, 3:].mean(0), 1e-5)
    np.testing.assert_allclose(found[0, 6:], x[0, 3], 1e-5)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_row_without_tokens_gives_zeros_and_finite_gradients(pooling):
    x = np.ones((2, 3, 4), "float32")
    mask = np.array([[0, 0, 0], [1, 1, 0]])
    head = EmbeddingHead([pooling], [{"type": "normalize"}])
    assert not ops.convert_to_numpy(head(x, mask))[0].any()
    (found,) = gradients(lambda tensors: ops.sum(head(tensors[0], mask)), [x])
    assert np.isfinite(found).all() and not found[0].any()


def test_invalid_heads_are_rejected():
    for pooling in ([], ["sum"]):
        with pytest.raises(ValueError, match="pooling must be a list of cls, max"):
            EmbeddingHead(pooling)
    for step in ({"type": "norm"}, {"type": "dense", "units": 3}):
        with pytest.raises(ValueError, match="a step must be of type normalize, or of type dense"):
            EmbeddingHead(steps=[step])
    with pytest.raises(ValueError, match="units must be a positive integer"):
        EmbeddingHead(steps=[{**DENSE, "units": 0}])


@pytest.mark.parametrize(
    "backbone", [BertEncoder(12, 1, 8, 2, seed=0), GPT2(12, 1, 8, 2, seed=0)], ids=["bert", "gpt2"]
)
def test_a_model_ignores_padding_and_is_saved(backbone, tmp_path):
    model = TextEmbedder(backbone, ["mean"], [DENSE], seed=1)
    ids = np.array([[3, 4, 5, 0, 0]])
    batch = {"token_ids": ids, "padding_mask": (ids > 0).astype("int32")}
    found = ops.convert_to_numpy(model(batch)["embedding"])
    alone = ops.convert_to_numpy(model({"token_ids": ids[:, :3]})["embedding"])
    np.testing.assert_allclose(found, alone, 1e-5, 1e-6)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(ops.convert_to_numpy(loaded(batch)["embedding"]), found)
    masked = {**batch, "pooling_mask": np.array([[0, 1, 1, 0, 0]])}
    assert np.abs(ops.convert_to_numpy(model(masked)["embedding"]) - found).max() > 1e-3
