"""Dropout: the share, the scale, and masks that have nothing in common."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.ops.dropout import dropout

SHAPE = (64, 1024)


def _mask(seed, rate=0.25):
    """1 where a value was dropped."""
    x = ops.ones(SHAPE, "float32")
    return ops.convert_to_numpy(dropout(x, rate, seed)) == 0


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_values_are_0_or_grow_so_that_the_mean_stays(dtype):
    x = ops.cast(np.random.default_rng(0).normal(size=(300, 40)), dtype)
    y = dropout(x, 0.2, 3)
    assert keras.backend.standardize_dtype(y.dtype) == dtype
    x, y = (ops.convert_to_numpy(ops.cast(v, "float32")) for v in (x, y))
    np.testing.assert_allclose(y[y != 0], x[y != 0] / 0.8, rtol=1e-2)
    assert np.mean(y == 0) == pytest.approx(0.2, abs=0.015)


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.5, 0.9])
def test_the_share_is_the_rate(rate):
    dropped = np.concatenate([_mask(seed, rate).ravel() for seed in range(8)])
    error = np.sqrt(rate * (1 - rate) / dropped.size)
    assert abs(dropped.mean() - rate) < 4 * error
    per_row = dropped.reshape(-1, SHAPE[1]).sum(axis=1)
    # Rows vary as binomial ones do.
    assert per_row.var() == pytest.approx(SHAPE[1] * rate * (1 - rate), rel=0.25)


def _correlation(one, other):
    return np.corrcoef(one.ravel(), other.ravel())[0, 1] * np.sqrt(one.size)


def test_integers_of_numpy_are_seeds():
    np.testing.assert_array_equal(_mask(np.int64(7)), _mask(7))


def test_neighbours_rows_and_columns_do_not_depend_on_one_another():
    mask = _mask(5).astype(float)
    for shift in (1, 2, 3, 4, 7, 8, 16, 31, 32, 64, 128, 256, 512):
        assert abs(_correlation(mask[:, :-shift], mask[:, shift:])) < 4.5
    for shift in (1, 2, 4, 8, 16, 32):
        assert abs(_correlation(mask[:-shift], mask[shift:])) < 4.5


def test_the_masks_of_consecutive_steps_and_seeds_do_not_depend_on_one_another():
    generator = keras.random.SeedGenerator(100)
    masks = np.stack([_mask(generator).astype(float) for _ in range(16)])
    others = np.stack([_mask(seed).astype(float) for seed in range(16)])
    pairs = (masks, masks), (others, others), (masks, others)
    every = [
        _correlation(a[i], b[j])
        for a, b in pairs
        for i in range(16)
        for j in range(16)
        if a is not b or i < j
    ]
    assert np.abs(every).max() < 4.5 and np.std(every) == pytest.approx(1, abs=0.15)


def test_a_generator_gives_other_masks_and_its_seed_the_same_ones():
    generator, again = keras.random.SeedGenerator(7), keras.random.SeedGenerator(7)
    first, second = _mask(generator), _mask(generator)
    assert np.any(first != second)
    np.testing.assert_array_equal(first, _mask(again))
    np.testing.assert_array_equal(_mask(9), _mask(9))
    assert np.any(_mask(-1) != _mask(1))


def _hash(x):
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ x >> np.uint32(shift)) * np.uint32(factor)
    return x ^ x >> np.uint32(16)


@pytest.mark.skipif(keras.config.backend() == "torch", reason="PyTorch draws its own")
@pytest.mark.parametrize("seed", [0, 5, -3])
def test_masks_are_the_hash_that_every_backend_computes(seed):
    key, golden = np.uint32([seed & 0xFFFFFFFF]), np.uint32(0x9E3779B9)
    first = _hash(_hash(key + golden))
    number = np.arange(SHAPE[0] * SHAPE[1], dtype="uint32")
    drawn = _hash(_hash(number * golden + first) + _hash(first))
    np.testing.assert_array_equal(_mask(seed), (drawn < 0.25 * 2**32).reshape(SHAPE))


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="of TensorFlow's kernel")
def test_masks_are_the_same_compiled_and_not_and_of_unknown_length():
    import tensorflow as tf

    x = tf.ones((63, 1100))  # more than one of the counts that are rounded up to
    expected = dropout(x, 0.3, 4)
    unknown = {"input_signature": [tf.TensorSpec((None, None))]}
    for options in ({}, {"jit_compile": True}, unknown, {"jit_compile": True, **unknown}):
        found = tf.function(lambda x: dropout(x, 0.3, 4), **options)(x)
        np.testing.assert_array_equal(found, expected)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = dropout(x, 0.3, 4)
    np.testing.assert_array_equal(tape.gradient(y, x), expected)
