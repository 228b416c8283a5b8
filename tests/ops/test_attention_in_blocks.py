"""Attention in blocks against the formula, and its gradient against that of the plain way."""

import keras
import numpy as np
import pytest
from keras import ops
from layer_checks import compiled, gradients

from keras_attn.ops import attention, causal_mask, scaled_dot_product_attention

pytestmark = pytest.mark.skipif(keras.backend.backend() != "tensorflow",
                                reason="other backends attend at once")


@pytest.fixture
def small_blocks(monkeypatch):
    from keras_attn.ops.kernels import tensorflow as kernels

    monkeypatch.setattr(kernels, "QUERIES", 4)
    monkeypatch.setattr(kernels, "KEYS", 6)
    monkeypatch.setattr(attention, "BLOCKS_FROM", 1)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def arrays_of(leading=(2, 3), queries=10, keys=13, width=5, values=7):
    return (normal(*leading, queries, width), normal(*leading, keys, width, seed=1),
            normal(*leading, keys, values, seed=2))


def reference(query, key, value, mask=True):
    """Vaswani et al., eq. 1, in float64; rows without a key are 0."""
    query, key, value = (x.astype("float64") for x in (query, key, value))
    logits = np.where(mask, query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]), -1e300)
    e = np.exp(logits - logits.max(-1, keepdims=True)) * mask
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total) @ value


def random_mask(*shape):
    mask = np.random.default_rng(3).random(shape) < 0.6
    mask[..., :1, :] = False  # a query that sees nothing
    return mask


MASKS = [None, (2, 1, 1, 13), (10, 13), (13,), (2, 3, 10, 13), (1, 3, 10, 1)]


@pytest.mark.parametrize("shape", MASKS, ids=str)
def test_any_mask(small_blocks, shape):
    arrays = arrays_of()
    mask = None if shape is None else random_mask(*shape) if len(shape) > 1 else \
        np.arange(13) % 3 > 0
    found = scaled_dot_product_attention(*arrays, mask=mask)
    np.testing.assert_allclose(found, reference(*arrays, True if mask is None else mask),
                               1e-5, 1e-6)


@pytest.mark.parametrize("align", ["start", "end"])
@pytest.mark.parametrize("lengths", [(12, 12), (3, 13), (13, 3), (1, 20), (20, 1), (5, 6)])
def test_causal_of_any_lengths(small_blocks, align, lengths):
    arrays = arrays_of((2,), *lengths)
    mask = ops.convert_to_numpy(causal_mask(*lengths, align=align))
    found = scaled_dot_product_attention(*arrays, causal=align)
    np.testing.assert_allclose(found, reference(*arrays, mask), 1e-5, 1e-6)


@pytest.mark.parametrize("shape", MASKS[:3], ids=str)
@pytest.mark.parametrize("causal", [None, "start", "end"])
def test_gradients_are_those_of_the_plain_way(small_blocks, monkeypatch, shape, causal):
    arrays, weights = arrays_of(), normal(2, 3, 10, 7, seed=4)
    mask = None if shape is None else random_mask(*shape)
    query_mask = np.arange(10) != 5

    def loss(tensors):
        found = scaled_dot_product_attention(
            *tensors, mask=mask, causal=causal, query_mask=query_mask)
        return ops.sum(found * weights)

    found = gradients(loss, arrays)
    monkeypatch.setattr(attention, "BLOCKS_FROM", 10**9)
    for one, other in zip(found, gradients(loss, arrays), strict=True):
        assert np.isfinite(one).all()
        np.testing.assert_allclose(one, other, 1e-4, 1e-5)


def test_compiled_with_xla_and_large_logits(small_blocks):
    arrays = [100 * x for x in arrays_of((1,))[:2]] + [arrays_of((1,))[2]]
    found = compiled(lambda *tensors: scaled_dot_product_attention(*tensors, causal="end"))(*arrays)
    mask = ops.convert_to_numpy(causal_mask(10, 13))
    np.testing.assert_allclose(found, reference(*arrays, mask), 1e-4, 1e-4)


def test_the_gradient_compiles_with_xla(small_blocks):
    import tensorflow as tf

    mask = random_mask(2, 1, 1, 13)

    def differentiate(*tensors):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            found = scaled_dot_product_attention(*tensors, mask=mask, causal="end")
        return tape.gradient(found, tensors)

    arrays = [tf.constant(x) for x in arrays_of()]
    for one, other in zip(compiled(differentiate)(*arrays), differentiate(*arrays), strict=True):
        np.testing.assert_allclose(one, other, 1e-4, 1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(small_blocks, dtype):
    arrays = arrays_of()
    found = scaled_dot_product_attention(*(ops.cast(x, dtype) for x in arrays))
    assert keras.backend.standardize_dtype(found.dtype) == dtype
    np.testing.assert_allclose(ops.cast(found, "float32"), reference(*arrays), 0.05, 0.05)


def test_no_more_than_blocks_exist_at_a_time():
    """The peak of memory of one process that attends forward and back over 8,192 tokens."""
    import subprocess
    import sys

    code = """
import resource
import tensorflow as tf
from keras_attn.ops import scaled_dot_product_attention
x = [tf.random.normal((1, 4, {length}, 32)) for _ in range(3)]
@tf.function
def step(*x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(scaled_dot_product_attention(*x) ** 2)
    return tape.gradient(loss, x)
step(*[t[:, :, :4096] for t in x])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
step(*x)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
    done = subprocess.run([sys.executable, "-c", code.format(length=8192)], capture_output=True,
                          text=True, check=True)
    # The weights alone would take 1,024 MB.
    assert float(done.stdout) < 150, done.stdout
