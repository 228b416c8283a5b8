import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.ops import scaled_dot_product_attention
from tests.support.layer_checks import compiled, gradients


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def reference(query, key, value, mask=True, bias=0.0, scale=None):
    """Vaswani et al., eq. 1, in float64; rows without a key are 0."""
    query, key, value = (x.astype("float64") for x in (query, key, value))
    scale = 1 / np.sqrt(query.shape[-1]) if scale is None else scale
    logits = query @ key.swapaxes(-1, -2) * scale + bias
    e = np.exp(logits - logits.max(-1, keepdims=True)) * mask
    total = e.sum(-1, keepdims=True)
    weights = e / np.where(total == 0, 1, total)
    return weights @ value, weights


def attend(*args, **kwargs):
    outputs = scaled_dot_product_attention(*args, return_scores=True, **kwargs)
    return [ops.convert_to_numpy(ops.cast(x, "float32")) for x in outputs]


@pytest.mark.parametrize("leading", [(), (2,), (2, 3), (2, 1, 3)])
def test_values_for_any_leading_dimensions(leading):
    arrays = normal(*leading, 4, 5), normal(*leading, 6, 5, seed=1), normal(*leading, 6, 3, seed=2)
    mask = np.random.default_rng(3).integers(0, 2, (*leading, 4, 6)) > 0
    bias = normal(*leading, 4, 6, seed=4)
    for found, expected in zip(
        attend(*arrays, mask=mask, bias=bias, scale=0.7),
        reference(*arrays, mask, bias, 0.7),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, 1e-5, 1e-6)


@pytest.mark.parametrize("align,visible", [("end", "j <= i + S - T"), ("start", "j <= i")])
@pytest.mark.parametrize("lengths", [(4, 4), (2, 5), (5, 2)])
def test_causal_alignment_with_unequal_lengths(align, visible, lengths):
    T, S = lengths
    arrays = normal(T, 3), normal(S, 3, seed=1), normal(S, 2, seed=2)
    i, j = np.arange(T)[:, None], np.arange(S)
    mask = eval(visible, {"i": i, "j": j, "S": S, "T": T})
    for found, expected in zip(
        attend(*arrays, causal=align), reference(*arrays, mask), strict=True
    ):
        np.testing.assert_allclose(found, expected, 1e-5, 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_rows_without_a_key_are_exactly_zero_on_every_path(dtype):
    arrays = [ops.cast(normal(2, 4, 8, seed=s) * 30, dtype) for s in range(3)]
    mask = np.ones((2, 4, 4), int)
    mask[0, 1] = mask[1, 3] = 0

    def plain(*tensors):
        return scaled_dot_product_attention(*tensors, mask=mask)

    def scored(*tensors):
        return scaled_dot_product_attention(*tensors, mask=mask, return_scores=True)

    def dropped(*tensors):
        return scaled_dot_product_attention(*tensors, mask=mask, dropout=0.5, seed=1)

    for function in (plain, scored, dropped, compiled(plain)):
        found = function(*arrays)
        for x in found if isinstance(found, tuple) else [found]:
            x = ops.convert_to_numpy(ops.cast(x, "float32"))
            assert np.isfinite(x).all()
            np.testing.assert_array_equal(x[0, 1], 0.0)
            np.testing.assert_array_equal(x[1, 3], 0.0)
            assert function is dropped or np.abs(x[0, 0]).max() > 0


def test_gradients_through_a_row_without_a_key_are_finite_and_zero():
    arrays = [normal(3, 4, seed=s) for s in range(3)]
    mask = np.array([[1, 1, 0], [0, 0, 0], [0, 1, 0]])
    weights = normal(3, 4, seed=5)

    def loss(tensors):
        return ops.sum(ops.multiply(scaled_dot_product_attention(*tensors, mask=mask), weights))

    query, key, value = gradients(loss, arrays)
    for gradient in (query, key, value):
        assert np.isfinite(gradient).all()
    np.testing.assert_array_equal(query[1], 0.0)
    np.testing.assert_array_equal(key[2], 0.0)
    np.testing.assert_array_equal(value[2], 0.0)
    _, attention_weights = reference(*arrays, mask)
    np.testing.assert_allclose(value, attention_weights.T @ weights, 1e-4, 1e-5)


def test_no_keys_at_all_give_zero():
    output = scaled_dot_product_attention(
        normal(2, 3, 4), np.zeros((2, 0, 4), "float32"), np.zeros((2, 0, 5), "float32")
    )
    np.testing.assert_array_equal(ops.convert_to_numpy(output), np.zeros((2, 3, 5)))


def test_huge_logits_at_masked_keys_do_not_overflow_float16():
    query = ops.cast(np.full((1, 2, 64), 200.0), "float16")
    key = ops.cast(np.concatenate([np.zeros((1, 1, 64)), np.full((1, 1, 64), 200.0)], 1), "float16")
    value = ops.cast(normal(1, 2, 3), "float16")
    output, weights = attend(query, key, value, mask=np.array([[1, 0]]))
    np.testing.assert_allclose(weights, [[[1, 0], [1, 0]]])
    expected = ops.convert_to_numpy(ops.cast(value, "float32"))[:, [0, 0]]
    np.testing.assert_allclose(output, expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_softmax_is_taken_in_float32(dtype):
    # In float16 these logits are infinite, in bfloat16 they are equal.
    zeros = ops.zeros((1, 2, 4), dtype)
    value = ops.cast(np.array([[[0.0], [1.0]]]), dtype)
    bias = np.array([[70000.0, 70001.0], [-70000.0, -70002.0]], "float32")
    output, _ = attend(zeros, zeros, value, bias=bias)
    np.testing.assert_allclose(output[0, :, 0], [0.7311, 0.1192], atol=2e-3)


@pytest.mark.parametrize("dtype,tolerance", [("float16", 5e-3), ("bfloat16", 3e-2)])
def test_half_precision_is_near_the_reference(dtype, tolerance):
    arrays = normal(2, 16, 8), normal(2, 20, 8, seed=1), normal(2, 20, 8, seed=2)
    expected, _ = reference(*arrays)
    output, _ = attend(*(ops.cast(x, dtype) for x in arrays))
    np.testing.assert_allclose(output, expected, atol=tolerance)


def test_query_mask_silences_queries_and_hides_no_key():
    arrays = normal(3, 4), normal(5, 4, seed=1), normal(5, 4, seed=2)
    output, weights = attend(*arrays, query_mask=np.array([1, 0, 1]))
    expected, expected_weights = reference(*arrays)
    np.testing.assert_array_equal(output[1], 0.0)
    np.testing.assert_array_equal(weights[1], 0.0)
    np.testing.assert_allclose(output[[0, 2]], expected[[0, 2]], 1e-5, 1e-6)
    np.testing.assert_allclose(weights[[0, 2]], expected_weights[[0, 2]], 1e-5, 1e-6)


def test_shifting_all_keys_of_a_query_changes_nothing():
    arrays = normal(3, 4), normal(5, 4, seed=1), normal(5, 4, seed=2)
    one, two = (attend(*arrays, bias=bias)[0] for bias in (0.0, np.full((3, 1), 20.0, "float32")))
    np.testing.assert_allclose(one, two, 1e-4, 1e-5)


def test_permuting_keys_with_their_values_changes_nothing():
    query, key, value = normal(3, 4), normal(5, 4, seed=1), normal(5, 4, seed=2)
    order = np.random.default_rng(6).permutation(5)
    one, _ = attend(query, key, value)
    two, _ = attend(query, key[order], value[order])
    np.testing.assert_allclose(one, two, 1e-5, 1e-6)


def test_dropout_keeps_the_mean_and_leaves_scores_alone():
    seed = keras.random.SeedGenerator(1)
    query, key, value = (
        np.zeros((1, 400, 4), "float32"),
        normal(1, 50, 4),
        np.ones((1, 50, 1), "float32"),
    )
    output, weights = attend(query, key, value, dropout=0.25, seed=seed)
    np.testing.assert_allclose(weights, 1 / 50, 1e-5)
    assert output.std() > 0.01
    # Mean of 400 x 50 coins: the standard error is 0.004.
    np.testing.assert_allclose(output.mean(), 1.0, atol=0.02)


def test_a_float_mask_is_refused_with_the_way_to_convert_it():
    x = normal(2, 3)
    with pytest.raises(ValueError, match="mask > 0.5"):
        scaled_dot_product_attention(x, x, x, mask=np.ones((2, 2), "float32"))
    with pytest.raises(ValueError, match="query_mask > 0.5"):
        scaled_dot_product_attention(x, x, x, query_mask=np.ones((2,), "float32"))
    with pytest.raises(ValueError, match="align='middle'"):
        scaled_dot_product_attention(x, x, x, causal="middle")
