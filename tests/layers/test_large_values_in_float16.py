"""Logits beyond 65,504, where float16 ends, where queries and keys are within."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn import layers
from keras_attn.models import AttentionalFactorizationMachine
from keras_attn.ops import attention, scaled_dot_product_attention
from tests.support.layer_checks import run, weights_of
from tests.support.numpy_attention import softmax, turned

RANDOM = np.random.default_rng(0)
ROWS = {"query": RANDOM.integers(-4, 5, (2, 6, 4)) * 256.0}
PAIR = {**ROWS, "value": RANDOM.integers(-4, 5, (2, 5, 4)) * 256.0}
STREAMS = {
    "content": ROWS["query"],
    "query": ROWS["query"][:, :2],
    "query_positions": np.array([[0, 3], [1, 2]]),
    "segment_ids": np.eye(2, 6, dtype=int),
}
LAYERS = {
    "MultiHeadAttention": (lambda **o: layers.MultiHeadAttention(2, 4, **o), PAIR),
    "WindowAttention": (lambda **o: layers.WindowAttention(2, 4, 2, **o), ROWS),
    "WindowAttention grid": (
        lambda **o: layers.WindowAttention(2, 4, (1, 1), **o),
        {"query": ROWS["query"].reshape(2, 3, 2, 4)},
    ),
    "ExpandedWindowAttention": (
        lambda **o: layers.ExpandedWindowAttention(2, 4, 2, 1, global_tokens=1, **o),
        ROWS,
    ),
    **{
        f"MixedAttention {mix}": (
            lambda m=mix, **o: layers.MixedAttention(2, 4, 1, mix=m, **o),
            ROWS,
        )
        for mix in ("gate", "heads", "cascade")
    },
    **{
        f"RelativeAttention {style}": (
            lambda s=style, **o: layers.RelativeAttention(2, 4, s, **o),
            ROWS,
        )
        for style in ("xl", "shaw")
    },
    "TwoStreamAttention": (lambda **o: layers.TwoStreamAttention(2, 4, **o), STREAMS),
}


@pytest.mark.parametrize("name", LAYERS)
def test_logits_beyond_float16_give_what_they_give_in_float32(name):
    make, inputs = LAYERS[name]
    inputs = {n: x.astype("float32" if x.dtype.kind == "f" else "int32") for n, x in inputs.items()}
    full, half = make(seed=1), make(seed=1, dtype="mixed_float16")
    for layer in (full, half):
        run(layer, inputs)
        random = np.random.default_rng(2)
        for weight in layer.weights:  # whole numbers, so that queries and keys are exact
            weight.assign(random.integers(-1, 2, weight.shape))
    expected = run(full, inputs)
    np.testing.assert_allclose(run(half, inputs), expected, atol=2e-3 * np.abs(expected).max())


@pytest.mark.parametrize("in_blocks", [False, True])
def test_dot_products_beyond_float16_are_those_of_the_formula(in_blocks, monkeypatch):
    if in_blocks:
        monkeypatch.setitem(attention.BLOCKWISE_MIN_LOGITS, keras.backend.backend(), 1)
    query, key, value = (RANDOM.normal(size=(1, 2, 5, 64)) * size for size in (300, 300, 1))
    query, key = query.round(), key.round()
    logits = query @ turned(key) / 8
    assert np.abs(logits).max() > 65504
    found = scaled_dot_product_attention(*(ops.cast(x, "float16") for x in (query, key, value)))
    assert keras.backend.standardize_dtype(found.dtype) == "float16"
    np.testing.assert_allclose(
        ops.convert_to_numpy(found).astype("float64"), softmax(logits) @ value, atol=2e-3
    )


@pytest.mark.parametrize("score", ["linear", "context"])
def test_pooling_by_logits_beyond_float16_is_that_of_the_formula(score):
    layer = layers.AttentionPooling(
        3 if score == "context" else None, "linear", score, seed=1, dtype="mixed_float16"
    )
    inputs = RANDOM.integers(-9, 10, (2, 5, 4)) * 2048.0
    run(layer, {"inputs": inputs})
    for weight in layer.weights:
        weight.assign(RANDOM.integers(1, 8, weight.shape))
    weights = weights_of(layer)
    logits = inputs @ weights["kernel"] + weights.get("bias", 0)
    logits = (logits @ weights.get("context", np.ones((1, 1))))[..., 0]
    assert np.abs(logits).max() > 65504
    expected = np.einsum("bt,btd->bd", softmax(logits), inputs)
    np.testing.assert_allclose(run(layer, {"inputs": inputs}), expected, 1e-3)


def test_products_of_pairs_beyond_float16_do_not_matter_where_they_are_not_attended_to():
    layer = layers.AttentionalInteraction(2, seed=1, dtype="mixed_float16")
    inputs = np.array([[[3e4, 1.0], [3e4, 2.0], [-0.5, 3.0]]])
    run(layer, {"inputs": inputs})
    layer.kernel.assign([[-1, -1], [0, 0]])  # pairs with a positive product get e = 0
    layer.vector.assign([[1], [1]])
    # Products: (9e8, 2), (-1.5e4, 3), (-1.5e4, 6); the latter two share all weight.
    np.testing.assert_allclose(run(layer, {"inputs": inputs}), [[-1.5e4, 4.5]], 1e-3)


def test_a_factorization_machine_of_large_values_gives_what_it_gives_in_float32():
    batch = {"feature_ids": np.array([[0, 1, 2]]), "feature_values": np.array([[3e4, 3e4, 2.0]])}
    full, half = (
        AttentionalFactorizationMachine(3, 3, 4, 2, seed=1, dtype=dtype)
        for dtype in ("float32", "mixed_float16")
    )
    expected = ops.convert_to_numpy(full(batch)["logits"])
    np.testing.assert_allclose(ops.convert_to_numpy(half(batch)["logits"]), expected, 1e-3)
