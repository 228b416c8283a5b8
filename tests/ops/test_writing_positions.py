"""Writing into a cache: in place where nothing else reads what was there."""

import keras
import numpy as np
import pytest
from keras import ops

if keras.backend.backend() != "tensorflow":
    pytest.skip("the other backends have one way", allow_module_level=True)

import tensorflow as tf

from keras_attn.ops.kernels.tensorflow import traced, write_positions

WHOLE = np.random.default_rng(0).normal(size=(2, 3, 5, 4)).astype("float32")


def _fill(whole):
    """Position n filled with n, for all but the last, by a loop."""
    def body(index, whole):
        part = ops.full((2, 3, 1, 4), 1.0) * ops.cast(index, "float32")
        return index + 1, write_positions(whole, index, ops.cast(part, whole.dtype), 2)

    return ops.while_loop(lambda index, _: index < 4, body, (ops.zeros((), "int32"), whole))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("jit", [False, True])
def test_a_loop_writes_each_position(jit, dtype):
    whole = tf.cast(WHOLE, dtype)
    wanted = whole.numpy().copy()
    wanted[:, :, :4] = np.arange(4)[:, None]
    for _ in range(2):
        index, found = traced(_fill, jit)(whole)
        assert index == 4
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(whole, tf.cast(WHOLE, dtype))


@pytest.mark.parametrize("jit", [False, True])
def test_what_was_there_stays_where_it_is_read(jit):
    def both(whole, part):
        doubled = whole * 2
        return write_positions(doubled, 1, part, 1), doubled, doubled + 0

    found, kept, read = traced(both, jit)(WHOLE, WHOLE[:, 1:2])
    wanted = 2 * WHOLE
    for x in (kept, read):
        np.testing.assert_array_equal(x, wanted)
    wanted[:, 1:2] = WHOLE[:, 1:2]
    np.testing.assert_array_equal(found, wanted)


def test_a_function_that_xla_may_compile_keeps_the_operation_it_knows():
    def update(whole):
        return write_positions(whole, tf.shape(whole)[0], whole[:, :, :1], 2)

    compiled = tf.function(update, jit_compile=True)(WHOLE)
    plain = traced(update, jit=False)
    np.testing.assert_array_equal(compiled, plain(WHOLE))
    np.testing.assert_array_equal(compiled, update(tf.constant(WHOLE)))
    used = {op.type for op in plain.get_concrete_function(WHOLE).graph.get_operations()}
    assert "TensorStridedSliceUpdate" in used and "XlaDynamicUpdateSlice" not in used


def test_a_part_that_does_not_fit_is_refused():
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        traced(lambda whole: write_positions(whole, 4, whole[:, :, :2], 2), jit=False)(WHOLE)
