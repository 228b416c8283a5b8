import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers.abcnn1_attention import ABCNN1Attention
from keras_attn.layers.abcnn2_pooling import ABCNN2Pooling
from keras_attn.ops.matches import match_matrix
from tests.support.layer_checks import (
    check_layer,
    gradients,
    layer_gradients,
    run,
    with_other_padding,
)

MASKS = {
    "first_mask": np.array([[1, 1, 1, 0], [1, 1, 0, 0]]),
    "second_mask": np.array([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]),
}


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def pair():
    return {"first": normal(2, 4, 3), "second": normal(2, 5, 3, seed=1)}


def matches(first, second, first_mask=None, second_mask=None):
    """Yin et al., section 4.1, entry by entry."""
    found = np.zeros((len(first), first.shape[1], second.shape[1]))
    for b, i, j in np.ndindex(*found.shape):
        if (first_mask is None or first_mask[b, i]) and (second_mask is None or second_mask[b, j]):
            found[b, i, j] = 1 / (1 + np.sqrt(((first[b, i] - second[b, j]) ** 2).sum()))
    return found


@pytest.mark.parametrize("masks", [{}, MASKS])
def test_matches_agree_with_a_loop(masks):
    found = ops.convert_to_numpy(match_matrix(**pair(), **masks))
    np.testing.assert_allclose(found, matches(**pair(), **masks), 1e-5, 1e-6)


def test_equal_steps_match_wholly_with_a_gradient_of_zero():
    x = np.ones((1, 2, 3), "float32")
    np.testing.assert_array_equal(ops.convert_to_numpy(match_matrix(x, x)), 1)
    for gradient in gradients(lambda t: ops.sum(match_matrix(*t)), [x, x.copy()]):
        np.testing.assert_array_equal(gradient, 0)


def test_steps_too_far_for_float32_do_not_match():
    x = np.full((1, 1, 1), 1e20, "float32")
    np.testing.assert_array_equal(ops.convert_to_numpy(match_matrix(x, -x)), 0)


def test_steps_equal_but_for_rounding_have_almost_no_gradient():
    x = np.ones((1, 1, 3), "float32")
    y = np.nextafter(x, np.float32(2))
    assert ops.convert_to_numpy(match_matrix(x, y)) > 1 - 1e-6
    for gradient in gradients(lambda t: ops.sum(match_matrix(*t)), [x, y]):
        assert 0 < np.abs(gradient).max() < 1e-3


def test_gradients_of_other_steps_are_those_of_the_formula():
    x, y = normal(1, 1, 3), normal(1, 1, 3, seed=1)
    distance = np.sqrt(((x - y) ** 2).sum())
    expected = (y - x) / (distance * (1 + distance) ** 2)
    first, second = gradients(lambda t: ops.sum(match_matrix(*t)), [x, y])
    np.testing.assert_allclose(first, expected, 1e-5)
    np.testing.assert_allclose(second, -expected, 1e-5)


def attention_maps(weights, first, second, first_mask=None, second_mask=None, index=0):
    a = matches(first, second, first_mask, second_mask)
    kernels = weights.get("kernel"), weights.get("kernel")
    if "kernel" not in weights:
        kernels = weights["first_kernel"], weights["second_kernel"]
    x, mask = (first, first_mask) if index == 0 else (second, second_mask)
    a = a if index == 0 else a.swapaxes(1, 2)
    channel = np.zeros(x.shape)
    for b, i, j in np.ndindex(*a.shape):
        channel[b, i] += a[b, i, j] * kernels[index][j]
    joined = np.concatenate([x, channel], axis=-1)
    return joined if mask is None else joined * (mask[..., None] > 0)


@pytest.mark.parametrize("shared, masks", [(True, {}), (False, MASKS)])
def test_every_check_of_attention_before_the_convolution(shared, masks):
    def make(**kwargs):
        return ABCNN1Attention(6, shared, **{"seed": 1, **kwargs})

    check_layer(make, {**pair(), **masks}, attention_maps)
    swapped = {"first": pair()["second"], "second": pair()["first"]}
    if shared:
        layer = make()
        there, back = (run(layer, inputs, index=i) for inputs, i in ((pair(), 0), (swapped, 1)))
        np.testing.assert_allclose(there, back, 1e-5, 1e-6)


def test_the_map_of_the_second_sequence_is_by_columns():
    layer, inputs = ABCNN1Attention(6, False, seed=1), {**pair(), **MASKS}
    found = run(layer, inputs, index=1)
    weights = {v.name: ops.convert_to_numpy(v) for v in layer.weights}
    np.testing.assert_allclose(found, attention_maps(weights, **inputs, index=1), 1e-5, 1e-5)


def pooled(
    weights, first, second, first_mask=None, second_mask=None, index=0, width=2, normalize=False
):
    """Yin et al., section 4.2, window by window."""
    a = matches(first, second, first_mask, second_mask).sum(axis=2 - index)
    x, mask = (first, first_mask) if index == 0 else (second, second_mask)
    if normalize:
        a = a / a.sum(axis=1, keepdims=True)
    found = np.zeros((len(x), x.shape[1] - width + 1, x.shape[2]))
    for b, t in np.ndindex(*found.shape[:2]):
        window = range(t, t + width)
        if mask is None or all(mask[b, k] for k in window):
            found[b, t] = sum(a[b, k] * x[b, k] for k in window)
    return found


@pytest.mark.parametrize("normalize, masks", [(False, {}), (True, MASKS)])
def test_every_check_of_attention_in_the_pooling(normalize, masks):
    def make(**kwargs):
        return ABCNN2Pooling(2, normalize, **kwargs)

    inputs = {**pair(), **masks}
    check_layer(make, inputs, lambda *w, **i: pooled(*w, **i, normalize=normalize))
    np.testing.assert_allclose(
        run(make(), inputs, index=1), pooled({}, **inputs, index=1, normalize=normalize), 1e-5, 1e-5
    )


def test_a_window_of_one_weighs_each_step():
    x = {"first": np.ones((1, 1, 2), "float32"), "second": np.ones((1, 1, 2), "float32")}
    np.testing.assert_allclose(run(ABCNN2Pooling(1), x), [[[1, 1]]], 1e-5)


@pytest.mark.parametrize(
    "make, lost", [(lambda: ABCNN1Attention(9, seed=1), 0), (lambda: ABCNN2Pooling(2), 1)]
)
def test_padding_never_reaches_the_output(make, lost):
    layer, inputs = make(), {**pair(), **MASKS}
    for index in (0, 1):
        expected = run(layer, inputs, index=index)
        for name, side in (("first_mask", "first"), ("second_mask", "second")):
            for other in with_other_padding(inputs, name, [side]):
                found = run(layer, other, index=index)
                real = found[:, : expected.shape[1]]
                np.testing.assert_allclose(real, expected, 1e-5, 1e-5)
                assert not found[:, expected.shape[1] :].any()


@pytest.mark.parametrize(
    "make", [lambda: ABCNN1Attention(5, seed=1), lambda: ABCNN2Pooling(2, normalize=True)]
)
def test_an_empty_sequence_gives_zero_and_finite_gradients(make):
    inputs = {**pair(), "first_mask": np.array([[0, 0, 0, 0], [1, 1, 1, 1]])}
    layer = make()
    assert not run(layer, inputs)[0].any()
    by_path, by_input = layer_gradients(layer, inputs)
    assert all(np.isfinite(g).all() for g in (*by_path.values(), *by_input.values()))


def test_embeddings_give_their_masks():
    ids = [keras.Input((None,), dtype="int32") for _ in range(2)]
    embedding = keras.layers.Embedding(9, 3, mask_zero=True)
    model = keras.Model(
        ids, ABCNN1Attention(4)(*(embedding(x) for x in ids), return_attention_scores=True)
    )
    arrays = [np.array([[1, 2, 0, 0]]), np.array([[3, 0, 0]])]
    scores = ops.convert_to_numpy(model(arrays)[2])
    assert scores.shape == (1, 4, 3) and (scores > 0).sum() == 2


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: ABCNN1Attention(0), "max_length=0"),
        (lambda: ABCNN1Attention(3)(normal(1, 4, 2), normal(1, 2, 2)), "Received: 4 steps"),
        (
            lambda: ABCNN1Attention(3)(normal(1, 2, 2), normal(1, 2, 3)),
            r"second must be of shape \(1, S, 2\)",
        ),
        (lambda: ABCNN2Pooling(0), "width=0"),
        (
            lambda: ABCNN2Pooling(1)(normal(1, 2, 2), normal(1, 2, 3)),
            r"second must be of shape \(1, S, 2\)",
        ),
        (lambda: match_matrix(normal(1, 2, 2), normal(1, 2, 2), np.ones((1, 2))), "first_mask"),
    ],
)
def test_wrong_arguments_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
