"""Gated, local and bias-free Transformer layers with rotary positions."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import (
    AlibiBias,
    MultiHeadAttention,
    PositionwiseFeedForward,
    RotaryEmbedding,
    TransformerEncoderLayer,
    WindowAttention,
)
from tests.support.layer_checks import randomize, run, weights_of
from tests.support.numpy_attention import band

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(2, 75, 12)).astype("float32")
PACKS = np.repeat([[1, 2, 3, 0], [1, 1, 2, 2]], [20, 15, 30, 10], axis=1)
REAL = (PACKS > 0).astype("int32")


def test_gated_hidden_units_equal_the_formula():
    layer = PositionwiseFeedForward(5, activation="relu", gated=True)
    randomize(layer, {"inputs": X})
    weights = weights_of(layer)
    hidden = X @ weights["intermediate/kernel"] + weights["intermediate/bias"]
    hidden = np.maximum(hidden[..., :5], 0) * hidden[..., 5:]
    expected = hidden @ weights["output/kernel"] + weights["output/bias"]
    np.testing.assert_allclose(run(layer, {"inputs": X}), expected, atol=1e-5)


def pair(radius=4, **options):
    """A window layer, and full attention with the same weights."""
    rotary = RotaryEmbedding("halves", 50.0)
    local = WindowAttention(2, 6, radius, position=rotary, **options)
    full = MultiHeadAttention(2, 6, position=rotary, **options)
    randomize(local, {"query": X})
    full.build(X.shape, X.shape)
    full.set_weights(local.get_weights())
    return local, full


@pytest.mark.parametrize("scores", [False, True])
def test_a_window_with_rotary_positions_in_packed_rows_equals_a_mask(scores):
    local, full = pair(use_bias=False)
    positions = np.concatenate([np.arange(n) for n in (20, 15, 30, 10)])
    options = {"position_ids": positions, "return_attention_scores": scores}
    found = local(X, value_mask=REAL, pack_ids=PACKS, **options)
    mask = band(75, 4, 4) & (PACKS[:, :, None] == PACKS[:, None]) & (REAL[:, None] > 0)
    expected = full(X, X, attention_mask=mask, **options)
    if not scores:
        found, expected = [found], [expected]
    for one, other in zip(found, expected, strict=True):
        one, other = ops.convert_to_numpy(one), ops.convert_to_numpy(other)
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_rotary_attention_depends_on_distances_only():
    for layer in pair():
        inputs = (X,) if isinstance(layer, WindowAttention) else (X, X)
        ids = np.arange(75)[None] + np.array([[0], [40]])
        found, expected = layer(*inputs, position_ids=ids), layer(*inputs)
        np.testing.assert_allclose(
            ops.convert_to_numpy(found), ops.convert_to_numpy(expected), atol=1e-4
        )


def test_a_window_with_rotary_positions_decodes_with_a_cache_as_in_one_pass():
    local = WindowAttention(2, 6, 4, causal=True, position=RotaryEmbedding("halves", 50.0))
    randomize(local, {"query": X})
    x, expected = X[:, :9], ops.convert_to_numpy(local(X[:, :9]))
    cache, found = local.make_cache(2, 9), []
    for step in range(9):
        output, cache = local(x[:, step : step + 1], cache=cache, cache_index=step)
        found.append(ops.convert_to_numpy(output))
    np.testing.assert_allclose(np.concatenate(found, axis=1), expected, atol=1e-5)


def layer_of(window):
    return TransformerEncoderLayer(
        2,
        10,
        activation="gelu_erf",
        norm_first=True,
        use_bias=False,
        norm_bias=False,
        normalize_input=False,
        gated=True,
        position=RotaryEmbedding("halves"),
        window=window,
        seed=0,
    )


@pytest.mark.parametrize("window", [None, 3])
def test_an_encoder_layer_has_the_weights_and_the_output_of_its_sublayers(window):
    layer = layer_of(window)
    randomize(layer, {"inputs": X})
    assert set(weights_of(layer)) == {
        "attention/query_key_value_kernel",
        "attention/output_kernel",
        "feed_forward/intermediate/kernel",
        "feed_forward/output/kernel",
        "feed_forward_norm/gamma",
    }
    found = run(layer, {"inputs": X}, {"padding_mask": REAL, "pack_ids": PACKS})
    if window is None:
        mask = (PACKS[:, :, None] == PACKS[:, None]) & (REAL[:, None] > 0)
        attended = layer.attention(X, X, attention_mask=mask)
    else:
        attended = layer.attention(X, value_mask=REAL, pack_ids=PACKS)
    x = X + ops.convert_to_numpy(attended)
    normed = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    gamma = weights_of(layer)["feed_forward_norm/gamma"]
    expected = x + ops.convert_to_numpy(layer.feed_forward((normed * gamma).astype("float32")))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_an_encoder_layer_is_made_again_from_its_config():
    layer = layer_of(3)
    layer.build(X.shape)
    again = TransformerEncoderLayer.from_config(layer.get_config())
    again.build(X.shape)
    again.set_weights(layer.get_weights())
    np.testing.assert_array_equal(*(run(one, {"inputs": X}) for one in (layer, again)))


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: TransformerEncoderLayer(2, 8, normalize_input=False),
            "normalize_input=False requires norm_first=True",
        ),
        (
            lambda: TransformerEncoderLayer(2, 8, norm="rms", norm_bias=False),
            "requires norm='layer",
        ),
        (
            lambda: TransformerEncoderLayer(2, 8, window=2, initial_shifts=[1, 2]),
            "initial_shifts are not supported with a window",
        ),
        (lambda: WindowAttention(2, 4, 1, position=AlibiBias(2)), "must be a RotaryEmbedding"),
        (
            lambda: WindowAttention(2, 4, (1, 1), position=RotaryEmbedding()),
            "None on a grid",
        ),
        (
            lambda: MultiHeadAttention(2, 4)(*[np.zeros((1, 2, 3, 4))] * 2, position_ids=[[0]]),
            "position_ids require inputs",
        ),
    ],
)
def test_arguments_that_contradict_each_other(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="compiled on TensorFlow")
def test_a_norm_without_a_bias_equals_the_formula_where_xla_compiles_it():
    import tensorflow as tf

    from keras_attn.layers.layer_norm import LayerNorm

    x = RANDOM.normal(size=(512, 600)).astype("float32")
    layer = LayerNorm(epsilon=1e-5, center=False)
    layer.build(x.shape)
    layer.gamma.assign(RANDOM.normal(size=600))
    with tf.GradientTape() as tape:
        y = tf.function(layer)(tf.constant(x))
        loss = tf.reduce_sum(y**2)
    expected = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, expected * layer.gamma.numpy(), atol=1e-4)
    gradient = tape.gradient(loss, layer.gamma.value)
    np.testing.assert_allclose(gradient, 2 * (expected**2 * layer.gamma.numpy()).sum(0), rtol=1e-3)
