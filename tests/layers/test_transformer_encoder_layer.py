import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import PositionwiseFeedForward, TransformerEncoderLayer
from tests.support.layer_checks import (
    check_layer,
    compiled,
    layer_gradients,
    randomize,
    run,
    weights_of,
    with_other_padding,
)
from tests.support.quick import each_check, quick


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def erf(x):
    import math

    return np.vectorize(math.erf)(x)


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu_erf": lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
}


def feed_forward(weights, inputs, activation="relu", prefix=""):
    x = inputs @ weights[f"{prefix}intermediate/kernel"] + weights[f"{prefix}intermediate/bias"]
    return (
        ACTIVATIONS[activation](x) @ weights[f"{prefix}output/kernel"]
        + weights[f"{prefix}output/bias"]
    )


def norm(weights, name, x, epsilon):
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    return (
        centred / np.sqrt(variance + epsilon) * weights[f"{name}/gamma"] + weights[f"{name}/beta"]
    )


def attention(weights, x, mask, heads=2):
    depth = x.shape[-1]
    projected = x @ weights["attention/query_key_value_kernel"]
    q, k, v = np.split(projected + weights["attention/query_key_value_bias"], 3, axis=-1)
    parts = []
    for h in range(heads):
        columns = slice(h * depth // heads, (h + 1) * depth // heads)
        logits = q[..., columns] @ k[..., columns].swapaxes(1, 2) / np.sqrt(depth / heads)
        e = np.exp(logits - logits.max(-1, keepdims=True)) * mask
        parts.append(e / e.sum(-1, keepdims=True) @ v[..., columns])
    kernel, bias = weights["attention/output_kernel"], weights["attention/output_bias"]
    return np.concatenate(parts, -1) @ kernel + bias


def reference(
    weights, inputs, padding_mask, norm_first, epsilon=1e-5, activation="relu", norm=norm
):
    mask = padding_mask[:, None, :] > 0

    def ffn(x):
        return feed_forward(weights, x, activation, "feed_forward/")

    if norm_first:
        x = inputs + attention(weights, norm(weights, "attention_norm", inputs, epsilon), mask)
        return x + ffn(norm(weights, "feed_forward_norm", x, epsilon))
    x = norm(weights, "attention_norm", inputs + attention(weights, inputs, mask), epsilon)
    return norm(weights, "feed_forward_norm", x + ffn(x), epsilon)


MASK = np.array([[1, 1, 0, 1], [1, 1, 0, 0]])


@pytest.mark.parametrize("check, activation", each_check(ACTIVATIONS, "gelu_erf"))
def test_every_check_of_the_feed_forward_network(check, activation):
    check(
        lambda **k: PositionwiseFeedForward(7, activation=activation, seed=1, **k),
        {"inputs": normal(2, 4, 5)},
        lambda weights, inputs: feed_forward(weights, inputs, activation),
    )


def test_the_feed_forward_network_may_change_the_width():
    check_layer(
        lambda **k: PositionwiseFeedForward(7, output_dim=3, seed=1, **k),
        {"inputs": normal(2, 4, 5)},
        feed_forward,
    )


@pytest.mark.parametrize("check, norm_first", each_check([False, True], False))
def test_every_check_of_the_encoder_layer(check, norm_first):
    check(
        lambda **k: TransformerEncoderLayer(
            2,
            7,
            norm_first=norm_first,
            layer_norm_epsilon=1e-3,
            activation="gelu_tanh",
            seed=1,
            **k,
        ),
        {"inputs": normal(2, 4, 6), "padding_mask": MASK},
        lambda weights, inputs, padding_mask: reference(
            weights, inputs, padding_mask, norm_first, 1e-3, "gelu_tanh"
        ),
        tolerance=3e-5,
    )


def test_every_check_with_rms_norm():
    def rms(weights, name, x, epsilon):
        scale = np.sqrt((x**2).mean(axis=-1, keepdims=True) + epsilon)
        return x / scale * weights[f"{name}/scale"]

    check_layer(
        lambda **k: TransformerEncoderLayer(2, 7, norm="rms", seed=1, **k),
        {"inputs": normal(2, 4, 6), "padding_mask": MASK},
        lambda weights, inputs, padding_mask: reference(
            weights, inputs, padding_mask, False, norm=rms
        ),
        tolerance=3e-5,
    )


NORMS = [
    (keras.layers.BatchNormalization, {"momentum": 0.5}, False),
    (keras.layers.GroupNormalization, {"groups": 3}, True),
    (keras.layers.GroupNormalization, {"groups": -1}, False),
]


@pytest.mark.parametrize(
    "layer_class, arguments, norm_first",
    quick([(*norm, first) for *norm, _ in NORMS for first in (False, True)], *NORMS),
)
def test_a_normalization_layer_is_copied_for_each_place(layer_class, arguments, norm_first):
    x = ops.convert_to_tensor(normal(2, 4, 6))
    layer = TransformerEncoderLayer(
        2, 7, norm=layer_class(**arguments), norm_first=norm_first, seed=1
    )
    found = layer(x, training=True)
    attention_norm, feed_forward_norm = layer_class(**arguments), layer_class(**arguments)
    if norm_first:
        z = attention_norm(x, training=True)
        y = x + layer.attention(z, z)
        expected = y + layer.feed_forward(feed_forward_norm(y, training=True))
    else:
        y = attention_norm(x + layer.attention(x, x), training=True)
        expected = feed_forward_norm(y + layer.feed_forward(y), training=True)
    np.testing.assert_allclose(
        ops.convert_to_numpy(found), ops.convert_to_numpy(expected), 1e-4, 1e-5
    )
    model = keras.Sequential([keras.Input((None, 6)), layer])
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(model))
    again.set_weights(model.get_weights())
    np.testing.assert_allclose(
        ops.convert_to_numpy(again(x)), ops.convert_to_numpy(model(x)), 1e-5, 1e-6
    )


@pytest.mark.parametrize("norm_first", [False, True])
def test_padding_never_reaches_a_real_position(norm_first):
    layer = TransformerEncoderLayer(2, 7, norm_first=norm_first, seed=1)
    inputs = {"inputs": normal(2, 4, 6), "padding_mask": MASK}
    randomize(layer, inputs)
    expected = run(layer, inputs)[MASK > 0]
    for other in with_other_padding(inputs, "padding_mask", ["inputs"]):
        found = run(layer, other)[:, :4][MASK > 0]
        np.testing.assert_allclose(found, expected, 1e-4, 1e-5)


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_row_of_padding_alone_stays_finite_and_so_do_its_gradients(norm_first):
    layer = TransformerEncoderLayer(2, 7, norm_first=norm_first, seed=1)
    inputs = {"inputs": normal(2, 4, 6), "padding_mask": np.array([[0] * 4, [1] * 4])}
    randomize(layer, inputs)
    assert np.isfinite(run(layer, inputs)).all()
    scores = run(layer, inputs, {"return_attention_scores": True}, index=1)
    np.testing.assert_array_equal(scores[0], 0.0)
    np.testing.assert_allclose(scores[1].sum(-1), 1.0, 1e-5)
    by_path, by_input = layer_gradients(layer, inputs)
    for name, gradient in {**by_path, **by_input}.items():
        assert np.isfinite(gradient).all(), name


@pytest.mark.parametrize("norm_first", [False, True])
def test_masks_of_keras_equal_the_argument(norm_first):
    ids = np.array([[3, 4, 0, 0], [5, 6, 7, 0]])
    embedding = keras.layers.Embedding(9, 6, mask_zero=True)
    layer = TransformerEncoderLayer(2, 7, norm_first=norm_first, seed=1)
    tokens = keras.Input((None,), dtype="int32")
    model = keras.Model(tokens, layer(embedding(tokens), attention_mask=np.ones((1, 1, 1), bool)))
    implicit = ops.convert_to_numpy(model(ids))
    explicit = run(layer, {"inputs": ops.convert_to_numpy(embedding(ids)), "padding_mask": ids > 0})
    np.testing.assert_allclose(implicit[ids > 0], explicit[ids > 0], 1e-5, 1e-5)
    unmasked = run(layer, {"inputs": ops.convert_to_numpy(embedding(ids))})
    assert np.abs(unmasked[ids > 0] - explicit[ids > 0]).max() > 1e-3


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_causal_layer_decodes_with_a_cache_as_in_one_pass(norm_first):
    layer = TransformerEncoderLayer(2, 7, norm_first=norm_first, seed=1)
    x = ops.convert_to_tensor(normal(2, 5, 6))
    full = ops.convert_to_numpy(layer(x, use_causal_mask=True))
    step = compiled(lambda part, cache, index: layer(part, cache=cache, cache_index=index))
    cache, parts = layer.attention.make_cache(2, 5), []
    for i in range(5):
        part, cache = step(x[:, i : i + 1], cache, ops.convert_to_tensor(i, dtype="int32"))
        parts.append(ops.convert_to_numpy(part))
    np.testing.assert_allclose(np.concatenate(parts, 1), full, 1e-4, 1e-5)


def test_changing_a_token_changes_no_earlier_output_under_a_causal_mask():
    layer = TransformerEncoderLayer(2, 7, seed=1)
    x = normal(1, 5, 6)
    before = run(layer, {"inputs": x}, {"use_causal_mask": True})
    x[:, 3] += 1
    after = run(layer, {"inputs": x}, {"use_causal_mask": True})
    np.testing.assert_array_equal(before[:, :3], after[:, :3])
    assert np.abs(before[:, 3:] - after[:, 3:]).min() > 0


def test_dropout_repeats_by_seed_and_acts_at_each_place():
    x = ops.convert_to_tensor(normal(2, 4, 6))
    rates = [{"dropout": 0.5, "attention_dropout": 0.0}, {"attention_dropout": 0.5}]
    for rate in rates:
        runs = []
        for _ in range(2):
            layer = TransformerEncoderLayer(2, 7, seed=1, **rate)
            runs.append([ops.convert_to_numpy(layer(x, training=t)) for t in (True, True, False)])
        for one, two in zip(*runs, strict=True):
            np.testing.assert_array_equal(one, two)
        first, second, quiet = runs[0]
        assert np.abs(first - second).max() > 1e-3
        plain = TransformerEncoderLayer(2, 7, seed=1)
        np.testing.assert_array_equal(ops.convert_to_numpy(plain(x, training=True)), quiet)
    inner = PositionwiseFeedForward(7, dropout=0.5, seed=1)
    one, two = (ops.convert_to_numpy(inner(x, training=True)) for _ in range(2))
    assert np.abs(one - two).max() > 1e-3


def test_dropout_of_zero_keeps_no_random_state():
    layer = TransformerEncoderLayer(2, 7, dropout=0.0)
    layer.build((None, None, 6))
    assert not layer.non_trainable_variables


def test_equal_shapes_get_different_initial_weights():
    layer = TransformerEncoderLayer(2, 6, seed=1)
    layer.build((None, None, 6))
    weights = weights_of(layer)
    first, second = (
        weights["feed_forward/intermediate/kernel"],
        weights["feed_forward/output/kernel"],
    )
    assert np.abs(first - second).max() > 0.1


@pytest.mark.parametrize(
    "make,message",
    [
        (lambda: TransformerEncoderLayer(0, 7), "num_heads=0"),
        (lambda: TransformerEncoderLayer(2, 0), "intermediate_dim=0"),
        (lambda: TransformerEncoderLayer(2, 7, dropout=1.5), "dropout=1.5"),
        (lambda: TransformerEncoderLayer(2, 7, attention_dropout=-1), "attention_dropout=-1"),
        (lambda: TransformerEncoderLayer(2, 7, activation="gelu"), "gelu_tanh"),
        (lambda: TransformerEncoderLayer(2, 7, norm="batch"), "norm must be .* norm='batch'"),
        (lambda: TransformerEncoderLayer(2, 7).build((None, None, 5)), "num_heads=2"),
        (lambda: PositionwiseFeedForward(0), "intermediate_dim=0"),
        (lambda: PositionwiseFeedForward(3, dropout=2), "dropout=2"),
    ],
)
def test_arguments_out_of_range_are_errors_that_name_them(make, message):
    with pytest.raises(ValueError, match=message):
        make()
