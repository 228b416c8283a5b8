"""Attention with normalized queries and keys (qk_norm) equals the formula on every path."""

import numpy as np
import pytest
from keras import ops

from keras_attn.layers import MultiHeadAttention, RotaryEmbedding, WindowAttention
from keras_attn.layers.neighbours import NeighbourPositions
from tests.support.layer_checks import check_layer, randomize, weights_of
from tests.support.numpy_attention import normal, softmax, turned

HEADS, DEPTH = 2, 4


def _heads(x):
    return x.reshape(*x.shape[:2], HEADS, DEPTH).swapaxes(1, 2).astype("float64")


def _normalized(x, scale):
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + 1e-6) * scale


def reference(weights, query, mask=True):
    """Self-attention with a fused kernel."""
    x = query
    projected = x @ weights["query_key_value_kernel"] + weights["query_key_value_bias"]
    query, key, value = map(_heads, np.split(projected, 3, axis=-1))
    query = _normalized(query, weights["query_scale"])
    key = _normalized(key, weights["key_scale"])
    attended = softmax(query @ turned(key) / np.sqrt(DEPTH), mask) @ value
    merged = attended.swapaxes(1, 2).reshape(*x.shape[:2], HEADS * DEPTH)
    return merged @ weights["output_kernel"] + weights["output_bias"]


def _layer(**options):
    return MultiHeadAttention(HEADS, DEPTH, qk_norm=True, seed=1, **options)


def _layer_of_itself(**options):
    return WindowAttention(HEADS, DEPTH, window=5, **{"qk_norm": True, "seed": 1, **options})


def _built(layer, x):
    randomize(layer, {"query": x, "value": x})
    return layer


def test_a_window_over_the_sequence_equals_the_formula_and_passes_the_checks_of_layers():
    check_layer(_layer_of_itself, {"query": normal(2, 5, 8)}, reference)


def test_the_size_of_queries_and_keys_has_no_effect():
    x = normal(2, 5, 8)
    layer = _built(_layer(use_bias=False), x)
    kernel, before = layer.query_key_value_kernel, ops.convert_to_numpy(layer(x, x))
    factors = np.repeat([100.0, 0.5, 1.0], HEADS * DEPTH)
    kernel.assign(ops.convert_to_numpy(kernel) * factors)
    np.testing.assert_allclose(ops.convert_to_numpy(layer(x, x)), before, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("position", [None, "rotary"])
def test_decoding_with_a_cache_equals_one_pass(position):
    x = normal(2, 5, 8)
    layer = _built(_layer(position=position and RotaryEmbedding()), x)
    whole = ops.convert_to_numpy(layer(x, x, use_causal_mask=True))
    cache, found = layer.make_cache(2, 5), []
    for step in range(5):
        one = x[:, step : step + 1]
        output, cache = layer(one, one, cache=cache, cache_index=step)
        found.append(ops.convert_to_numpy(output))
    np.testing.assert_allclose(np.concatenate(found, axis=1), whole, rtol=1e-4, atol=1e-5)


def test_self_attention_equals_the_formula():
    x = normal(2, 5, 8)
    layer = _built(_layer(), x)
    wanted = reference(weights_of(layer), x)
    np.testing.assert_allclose(ops.convert_to_numpy(layer(x, x)), wanted, rtol=1e-4, atol=1e-5)


def test_heads_attend_to_neighbours_initially_as_without_norms():
    # Inputs of which the position is half of the variance, as in BERT.
    places = ops.convert_to_numpy(NeighbourPositions(0.7)((12, 128)))
    x = (places + 0.7 * normal(12, 128))[None]
    found = {}
    for norm in (False, True):
        layer = MultiHeadAttention(2, 64, initial_shifts=[-1, 2], qk_norm=norm, seed=0)
        _, weights = layer(x, x, return_attention_scores=True)
        weights = ops.convert_to_numpy(weights)[0]
        found[norm] = [weights[0, 3:9, 2:8].diagonal(), weights[1, 3:9, 5:11].diagonal()]
    assert np.min(found[True]) > 0.3
    np.testing.assert_allclose(np.mean(found[True]), np.mean(found[False]), rtol=0.25)
