"""All of a head in one kernel gives what attention gives step by step."""

import keras
import numpy as np
import pytest
from keras import ops

if keras.config.backend() != "jax":
    pytest.skip("of JAX's kernel", allow_module_level=True)

import jax

from keras_attn.layers import MultiHeadAttention
from keras_attn.ops import attention, scaled_dot_product_attention

BATCH, LENGTH, HEADS, DEPTH = 3, 32, 2, 16


def _random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def _masks():
    random = np.random.default_rng(1)
    keys = random.random((BATCH, 1, 1, LENGTH)) > 0.3
    keys[1] = False  # queries that see nothing
    return [None, keys, keys[:1], random.random((BATCH, 1, LENGTH, LENGTH)) > 0.5]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_outputs_and_gradients_are_those_of_the_formula(number, dropout):
    projected = _random(BATCH, LENGTH, 3, HEADS, DEPTH)
    bias, weights = _random(3, HEADS, DEPTH, seed=2), _random(BATCH, LENGTH, HEADS, DEPTH, seed=3)
    mask = _masks()[number]

    def in_steps(projected, bias):
        heads = ops.unstack(ops.transpose(projected + bias, (2, 0, 3, 1, 4)), axis=0)
        found = scaled_dot_product_attention(*heads, mask=mask, dropout=dropout, seed=7)
        return ops.sum(ops.transpose(found, (0, 2, 1, 3)) * weights, axis=-1)

    def at_once(projected, bias):
        found = attention.short_self_attention(projected, bias, mask, dropout, 7)
        return ops.sum(found * weights, axis=-1)

    for take in (lambda f: f, lambda f: jax.grad(lambda *x: f(*x).sum(), argnums=(0, 1))):
        expected, found = take(in_steps)(projected, bias), take(at_once)(projected, bias)
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=2e-5), expected, found)


@pytest.mark.parametrize("use_bias", [True, False])
def test_the_layer_takes_it_and_gives_the_same(monkeypatch, use_bias):
    layer = MultiHeadAttention(
        HEADS,
        DEPTH,
        dropout=0.2,
        use_bias=use_bias,
        seed=4,
        bias_initializer="random_normal",
        dtype="mixed_float16",
    )
    x = ops.cast(_random(BATCH, LENGTH, 24), "float16")
    padding = np.arange(LENGTH) < np.array([[32], [20], [1]])
    layer.build(x.shape, x.shape)
    taken = []
    kernel = attention.short_self_attention
    monkeypatch.setattr(
        "keras_attn.layers.multi_head_attention.short_self_attention",
        lambda *given: taken.append(1) or kernel(*given),
    )

    def call(**given):
        state = [v.value for v in layer.non_trainable_variables]
        output, _ = layer.stateless_call(
            [v.value for v in layer.trainable_variables], state, x, x, **given
        )
        return np.asarray(output, "float32")

    for given in ({"value_mask": padding}, {"value_mask": padding, "training": True}):
        expected = call(**given)
        assert not taken
        with monkeypatch.context() as patch:
            patch.setattr("keras_attn.ops.kernels.jax.has_short_kernel", lambda: True)
            found = call(**given)
        assert taken.pop()
        np.testing.assert_allclose(found, expected, atol=4e-3)


@pytest.mark.parametrize(
    "shape, dtype, mask, taken",
    [
        ((2, 128, 3, 4, 64), "bfloat16", None, True),
        ((2, 128, 3, 4, 64), "float16", (2, 1, 1, 128), True),
        ((2, 128, 3, 4, 64), "bfloat16", (1, 1, 128, 128), True),
        ((2, 128, 3, 4, 64), "float32", None, False),
        ((2, 256, 3, 4, 64), "bfloat16", None, False),
        ((2, 100, 3, 4, 64), "bfloat16", None, False),
        ((2, 128, 3, 4, 48), "bfloat16", None, False),
        ((2, 128, 3, 4, 64), "bfloat16", (2, 4, 1, 128), False),
        ((2, 128, 3, 4, 64), "bfloat16", (2, 1, 1, 1), False),
        ((2, 128, 3, 4, 64), "bfloat16", (2, 128, 128), False),
    ],
)
def test_it_takes_what_fits_one_kernel(monkeypatch, shape, dtype, mask, taken):
    mask = None if mask is None else np.ones(mask, bool)
    assert not attention.supports_short_kernel(shape, dtype, mask, 0.0, None)  # this has no GPU
    monkeypatch.setattr("keras_attn.ops.kernels.jax.has_short_kernel", lambda: True)
    assert attention.supports_short_kernel(shape, dtype, mask, 0.0, None) is taken
    assert not attention.supports_short_kernel(shape, dtype, mask, 0.1, None)  # no seed to hash
