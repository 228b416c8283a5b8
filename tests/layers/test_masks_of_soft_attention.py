"""Masks, padding and caches of soft attention."""

import keras
import numpy as np
import pytest
from keras import ops

from tests.support.layer_checks import (
    compiled,
    layer_gradients,
    randomize,
    run,
    weights_of,
    with_other_padding,
)
from tests.support.numpy_attention import attention_weights, normal
from tests.support.quick import quick
from tests.support.small_soft_attention import SCORES, inputs_of, make


@pytest.mark.parametrize("align,offset", [("end", 1), ("start", 0)])
@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_causal_mask_is_aligned_as_asked(score, align, offset):
    layer = make(score, causal_align=align)
    inputs = {"query": normal(1, 3, 5), "value": normal(1, 4, 5, seed=1)}
    found = run(layer, inputs, {"use_causal_mask": True, "return_attention_scores": True}, index=1)
    visible = np.arange(4) <= np.arange(3)[:, None] + offset
    expected = attention_weights(score, weights_of(layer), *inputs.values(), visible)
    np.testing.assert_allclose(found, expected, 1e-5, 1e-6)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (1, 3, 4), (2, 3, 4), (2, 1, 4)])
@pytest.mark.parametrize("score", ["scaled_dot", "concat"])
def test_attention_mask_may_have_any_shape_that_broadcasts(score, shape):
    layer, mask = make(score), np.random.default_rng(0).integers(0, 2, shape)
    inputs = {"query": normal(2, 3, 5), "value": normal(2, 4, 5, seed=1)}
    found = run(layer, inputs, {"attention_mask": mask, "return_attention_scores": True}, index=1)
    expected = attention_weights(score, weights_of(layer), *inputs.values(), mask > 0)
    np.testing.assert_allclose(found, expected, 1e-5, 1e-6)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("score", SCORES)
def test_a_row_with_no_key_gives_zeros_and_finite_gradients(score, policy):
    layer = make(score, dtype=policy)
    inputs = {**inputs_of(), "value_mask": np.array([[0, 0, 0, 0], [1, 1, 0, 0]])}
    randomize(layer, inputs)
    for index in (0, 1):
        found = run(layer, inputs, {"return_attention_scores": True}, index)
        np.testing.assert_array_equal(found[0], 0.0)
        assert np.abs(found[1]).max(axis=-1).min() > 0
    np.testing.assert_array_equal(run(layer, inputs)[0], 0.0)
    by_path, by_input = layer_gradients(layer, inputs)
    for name, gradient in {**by_path, **by_input}.items():
        assert np.isfinite(np.asarray(gradient, "float32")).all(), name
    np.testing.assert_array_equal(np.asarray(by_input["value"][0], "float32"), 0.0)


@pytest.mark.parametrize("score", SCORES)
def test_padding_never_reaches_the_output(score):
    layer, inputs = make(score), inputs_of()
    inputs["value_mask"] = np.array([[1, 1, 1, 0], [1, 0, 0, 0]])
    randomize(layer, inputs)
    expected = run(layer, inputs)
    for other in with_other_padding(inputs, "value_mask", ["value"]):
        np.testing.assert_allclose(run(layer, other), expected, 1e-5, 1e-5)


@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_query_mask_silences_queries_and_hides_no_key(score):
    layer, x = make(score), normal(1, 3, 5)
    randomize(layer, {"query": x, "value": x})
    named = {"query": x, "value": x, "query_mask": np.array([[1, 0, 1]])}
    for index in (0, 1):
        arguments = {"return_attention_scores": True}
        plain = run(layer, {"query": x, "value": x}, arguments, index)
        found = run(layer, named, arguments, index)
        np.testing.assert_allclose(found[:, [0, 2]], plain[:, [0, 2]], 1e-6, 1e-6)
        np.testing.assert_array_equal(found[:, 1], 0.0)


@pytest.mark.filterwarnings("error:.*mask:UserWarning")
@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_masks_of_keras_work_without_an_argument(score):
    ids = np.array([[3, 4, 0, 0], [5, 0, 0, 0]])
    embedding = keras.layers.Embedding(9, 5, mask_zero=True)
    recurrent = keras.layers.Bidirectional(keras.layers.LSTM(3, return_sequences=True))
    layer, tokens = make(score), keras.Input((None,), dtype="int32")
    x = recurrent(embedding(tokens))
    output, scores = keras.Model(tokens, layer(x, x, return_attention_scores=True))(ids)
    assert [w.shape for w in (output, scores)] == [(2, 4, 6), (2, 4, 4)]
    scores = ops.convert_to_numpy(scores)
    np.testing.assert_array_equal(scores[0, :, 2:], 0.0)
    np.testing.assert_array_equal(scores[0, 2:], 0.0)
    np.testing.assert_allclose(scores[0, :2].sum(-1), 1.0, 1e-5)
    x = recurrent(embedding(ids))
    plain = ops.convert_to_tensor(ops.convert_to_numpy(x))  # without the mask
    explicit = layer(plain, plain, query_mask=ids > 0, value_mask=ids > 0)
    np.testing.assert_allclose(
        ops.convert_to_numpy(output), ops.convert_to_numpy(explicit), 1e-5, 1e-6
    )
    last = keras.layers.LSTM(2)  # receives the implicit mask of the query
    np.testing.assert_allclose(
        ops.convert_to_numpy(last(layer(x, x))),
        ops.convert_to_numpy(last(explicit, mask=ops.convert_to_tensor(ids > 0))),
        1e-5,
        1e-6,
    )


@pytest.mark.parametrize("step", quick([1, 2], 2))
@pytest.mark.parametrize("score", SCORES)
def test_decoding_with_a_cache_equals_one_full_pass(score, step):
    layer = make(score)
    x = ops.convert_to_tensor(normal(2, 6, 5))
    value = ops.convert_to_tensor(normal(2, 6, 3, seed=1))
    mask = np.array([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1]])
    full, full_scores = layer(
        x, value, x, value_mask=mask, use_causal_mask=True, return_attention_scores=True
    )
    longer = np.concatenate([mask, np.ones((2, 2), int)], axis=1)

    def decode(query, value, cache, index):
        return layer(
            query,
            value,
            query,
            value_mask=longer,
            cache=cache,
            cache_index=index,
            return_attention_scores=True,
        )

    for function in (decode, compiled(decode)) if score == "additive" else (decode,):
        cache, parts = layer.make_cache(2, 8, key_dim=5, value_dim=3), []
        for i in range(0, 6, step):
            *found, cache = function(
                x[:, i : i + step],
                value[:, i : i + step],
                cache,
                ops.convert_to_tensor(i, dtype="int32"),
            )
            parts.append([ops.convert_to_numpy(part) for part in found])
        outputs, scores = (np.concatenate(part, 1) for part in zip(*parts, strict=True))
        np.testing.assert_allclose(outputs, ops.convert_to_numpy(full), 1e-5, 1e-6)
        np.testing.assert_array_equal(scores[..., 6:], 0.0)
        np.testing.assert_allclose(scores[..., :6], ops.convert_to_numpy(full_scores), 1e-5, 1e-6)


def test_a_mask_of_keras_is_no_mask_of_the_cache():
    embedding = keras.layers.Embedding(9, 5, mask_zero=True)
    x, layer = embedding(np.array([[3, 0, 2]])), make("additive")
    plain = ops.convert_to_tensor(ops.convert_to_numpy(x))
    query_mask = np.array([[1, 0, 1]])
    expected = layer(plain, plain, query_mask=query_mask, use_causal_mask=True)
    found, _ = layer(x, x, cache=layer.make_cache(1, 5, 5), cache_index=0)
    np.testing.assert_allclose(
        ops.convert_to_numpy(found), ops.convert_to_numpy(expected), 1e-5, 1e-6
    )
