"""Writing into a cache: in place where nothing else reads what was there."""

import keras
import numpy as np
import pytest
from keras import ops

if keras.backend.backend() != "tensorflow":
    pytest.skip("the other backends have one way", allow_module_level=True)

import tensorflow as tf

from keras_attn.layers.cache import write_cache
from keras_attn.ops.kernels.tensorflow_graphs import traced

WHOLE = np.random.default_rng(0).normal(size=(2, 3, 5, 4)).astype("float32")


def write(whole, index, part, axis):
    return write_cache((whole,), index, (part,), axis)[1][0]


def _fill(whole):
    """Position n filled with n, for all but the last, by a loop."""

    def body(index, whole):
        part = ops.full((2, 3, 1, 4), 1.0) * ops.cast(index, "float32")
        return index + 1, write(whole, index, ops.cast(part, whole.dtype), 2)

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
        return write(doubled, 1, part, 1), doubled, doubled + 0

    found, kept, read = traced(both, jit)(WHOLE, WHOLE[:, 1:2])
    wanted = 2 * WHOLE
    for x in (kept, read):
        np.testing.assert_array_equal(x, wanted)
    wanted[:, 1:2] = WHOLE[:, 1:2]
    np.testing.assert_array_equal(found, wanted)


def test_a_function_that_xla_may_compile_keeps_the_operation_it_knows():
    def update(whole):
        return write(whole, tf.shape(whole)[0], whole[:, :, :1], 2)

    compiled = tf.function(update, jit_compile=True)(WHOLE)
    plain = traced(update, jit=False)
    np.testing.assert_array_equal(compiled, plain(WHOLE))
    np.testing.assert_array_equal(compiled, update(tf.constant(WHOLE)))
    used = {op.type for op in plain.get_concrete_function(WHOLE).graph.get_operations()}
    assert "TensorStridedSliceUpdate" in used and "XlaDynamicUpdateSlice" not in used


@pytest.mark.parametrize("index", [-7, -1, 4, 7])
def test_places_out_of_range_are_brought_into_it(index):
    def update(whole, index):
        return write(whole, index, whole[:, :, :2] + 1, 2)

    wanted = WHOLE.copy()
    start = np.clip(index, 0, 3)
    wanted[:, :, start : start + 2] = WHOLE[:, :, :2] + 1
    for make in (lambda f: traced(f, jit=False), lambda f: traced(f, jit=True), tf.function):
        found = make(update)(tf.constant(WHOLE), tf.constant(index))
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("kind", [tf.int32, tf.int64])
def test_shapes_may_be_unknown(kind):
    signature = [
        tf.TensorSpec([None, 3, None, 4]),
        tf.TensorSpec([None, 3, None, 4]),
        tf.TensorSpec([], kind),
    ]
    update = traced(
        lambda whole, part, index: write(whole, index, part, 2),
        jit=False,
        input_signature=signature,
    )
    wanted = WHOLE.copy()
    wanted[:, :, 3:] = WHOLE[:, :, :2]
    np.testing.assert_array_equal(update(WHOLE, WHOLE[:, :, :2], tf.constant(3, kind)), wanted)
    assert update(WHOLE[:0], WHOLE[:0, :, :2], tf.constant(3, kind)).shape == (0, 3, 5, 4)


@pytest.mark.parametrize("jit", [None, False, True])
def test_a_part_of_another_shape_is_refused(jit):
    def update(whole):
        return write(whole, 0, ops.reshape(whole[:, :, :1], (3, 2, 1, 4)), 2)

    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        (update if jit is None else traced(update, jit))(tf.constant(WHOLE))
