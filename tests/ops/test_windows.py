import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.ops import scaled_dot_product_attention
from keras_attn.ops.windows import (
    draw_random_blocks,
    grid_window_mask,
    window_mask,
    windowed_attention,
    windowed_attention_2d,
)
from tests.support.layer_checks import compiled, gradients
from tests.support.quick import THOROUGH, quick

RANDOM = np.random.default_rng(0)

WINDOWS = {
    "both": {"left": 3, "right": 3},
    "causal": {"left": 3, "right": 0, "causal": True},
    "after": {"left": 0, "right": 4},
    "wider than a block": {"left": 40, "right": 2},
    "dilated": {"left": 2, "right": 2, "dilation": 3},
    "first": {"left": 2, "right": 2, "global_tokens": 4},
    "first causal": {"left": 2, "right": 0, "global_tokens": 3, "causal": True},
    "first dilated": {"left": 2, "right": 2, "global_tokens": 2, "dilation": 2},
    "random": {"left": 1, "right": 1, "random_blocks": 3, "seed": 7},
    "random and first": {"left": 1, "right": 1, "random_blocks": 2, "global_tokens": 1},
}


def heads(length, depth=8, batch=2):
    return [RANDOM.normal(size=(batch, 3, length, depth)).astype("float32") for _ in range(3)]


def naive_mask(length, left, right, dilation=1, global_tokens=0, causal=False):
    """Pair by pair; without random blocks."""
    seen = np.zeros((length, length), bool)
    for i in range(length):
        for j in range(length):
            steps, rest = divmod(j - i, dilation)
            near = rest == 0 and -left <= steps <= right
            seen[i, j] = (near or i < global_tokens or j < global_tokens) and (j <= i or not causal)
    return seen


@pytest.mark.parametrize("name", WINDOWS)
def test_the_mask_is_the_definition(name):
    window = dict(WINDOWS[name])
    drawn = window.pop("random_blocks", 0), window.pop("seed", 0)
    expected = naive_mask(300, **window)
    found = ops.convert_to_numpy(window_mask(300, random_blocks=drawn[0], seed=drawn[1], **window))
    if not drawn[0]:
        np.testing.assert_array_equal(found, expected)
        return
    assert found[expected].all()
    blocks = [(found & ~expected)[first : first + 32] for first in range(32, 288, 32)]
    for rows in blocks:  # whole blocks of 32 more, or what the line's end or the first leave
        count = rows.sum(axis=1) / 32
        assert (rows == rows[0]).all() and drawn[0] - 1 < count[0] <= drawn[0]


@pytest.mark.parametrize("name", WINDOWS)
def test_rows_of_the_mask_are_those_of_the_whole(name):
    window = WINDOWS[name]
    whole = ops.convert_to_numpy(window_mask(150, **window))
    rows = np.array([0, 2, 40, 149, 40], "int32")
    found = window_mask(150, rows=ops.convert_to_tensor(rows), **window)
    np.testing.assert_array_equal(ops.convert_to_numpy(found), whole[rows])


@pytest.mark.parametrize("length", [1, 2, 5, 33, 257])
@pytest.mark.parametrize("name", WINDOWS)
def test_blocks_equal_a_mask_over_all_pairs(name, length):
    query, key, value = heads(length)
    mask = RANDOM.random((2, length)) < 0.8
    mask[1] = False
    window = WINDOWS[name]
    found = windowed_attention(query, key, value, mask=mask, **window)
    dense = ops.convert_to_numpy(window_mask(length, **window)) & mask[:, None, None, :]
    expected = scaled_dot_product_attention(query, key, value, mask=dense)
    np.testing.assert_allclose(
        ops.convert_to_numpy(found), ops.convert_to_numpy(expected), atol=1e-5
    )


@pytest.mark.parametrize("name", WINDOWS)
def test_gradients_of_blocks_equal_those_of_a_mask(name):
    arrays, window = heads(70, batch=1), WINDOWS[name]
    projection = RANDOM.normal(size=arrays[2].shape).astype("float32")
    dense = ops.convert_to_numpy(window_mask(70, **window))

    def blocks(tensors):
        return ops.sum(ops.multiply(windowed_attention(*tensors, **window), projection))

    def all_pairs(tensors):
        attended = scaled_dot_product_attention(*tensors, mask=dense)
        return ops.sum(ops.multiply(attended, projection))

    for found, expected in zip(
        gradients(blocks, arrays), gradients(all_pairs, arrays), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_the_first_positions_may_see_by_heads_of_their_own():
    query, key, value = heads(50)
    others = heads(50)
    window = {"left": 2, "right": 2, "global_tokens": 3}
    found = ops.convert_to_numpy(
        windowed_attention(query, key, value, global_heads=others, **window)
    )
    plain = ops.convert_to_numpy(windowed_attention(query, key, value, **window))
    np.testing.assert_array_equal(found[:, :, 3:], plain[:, :, 3:])
    expected = ops.convert_to_numpy(scaled_dot_product_attention(*others))
    np.testing.assert_allclose(found[:, :, :3], expected[:, :, :3], atol=1e-5)


@pytest.mark.parametrize("window", [{"left": 10**6, "right": 10**6}, {"left": 90, "right": 0}])
def test_a_window_wider_than_the_text_costs_no_more_than_all_pairs(window):
    arrays = heads(50)
    found = ops.convert_to_numpy(windowed_attention(*arrays, **window))
    causal = None if window["right"] else "end"
    expected = scaled_dot_product_attention(*arrays, causal=causal)
    np.testing.assert_allclose(found, ops.convert_to_numpy(expected), atol=1e-5)


@pytest.mark.parametrize("number", [1, 3, 4, 9, 50])
def test_drawn_blocks_are_far_and_differ(number):
    chosen, valid = (ops.convert_to_numpy(x) for x in draw_random_blocks(number, 3, seed=5))
    for block, (row, real) in enumerate(zip(chosen, valid, strict=True)):
        drawn = row[real]
        assert len(set(drawn)) == len(drawn) == min(3, max(number - 3, 0))
        assert all(0 <= other < number and abs(other - block) > 1 for other in drawn)
    if number == 50:
        assert len(set(chosen.ravel() - np.repeat(np.arange(50), 3))) > 30
        assert (chosen != ops.convert_to_numpy(draw_random_blocks(number, 3, seed=6)[0])).any()


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (9, 13)])
@pytest.mark.parametrize("radius", [(1, 1), (2, 0), (5, 6)])
def test_a_window_on_a_grid_equals_a_mask_over_all_pairs(shape, radius):
    rows, columns = shape
    grids = [RANDOM.normal(size=(2, 2, *shape, 4)).astype("float32") for _ in range(3)]
    mask = RANDOM.random((2, *shape)) < 0.8
    mask[1] = False
    places = np.argwhere(np.ones(shape))
    near = (np.abs(places[:, None] - places) <= radius).all(-1)
    np.testing.assert_array_equal(
        ops.convert_to_numpy(grid_window_mask(rows, columns, radius)), near
    )
    found = ops.convert_to_numpy(windowed_attention_2d(*grids, radius, mask=mask))
    lines = [x.reshape(2, 2, rows * columns, 4) for x in grids]
    expected = scaled_dot_product_attention(
        *lines, mask=near & mask.reshape(2, 1, 1, rows * columns)
    )
    np.testing.assert_allclose(
        found.reshape(lines[0].shape), ops.convert_to_numpy(expected), atol=1e-5
    )


@pytest.mark.parametrize("name", quick(WINDOWS, "first causal", "random"))
def test_compiled_blocks_give_the_same(name):
    arrays, window = heads(70), WINDOWS[name]
    function = compiled(lambda tensors: windowed_attention(*tensors, **window))
    found = ops.convert_to_numpy(function([ops.convert_to_tensor(x) for x in arrays]))
    np.testing.assert_allclose(
        found, ops.convert_to_numpy(windowed_attention(*arrays, **window)), atol=1e-5
    )


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a graph of TensorFlow")
@pytest.mark.parametrize("name", quick(WINDOWS, "random and first"))
def test_one_graph_takes_every_length(name):
    import tensorflow as tf

    window = WINDOWS[name]
    shape = tf.TensorSpec((None, 3, None, 8), "float32")
    function = tf.function(lambda *x: windowed_attention(*x, **window), [shape] * 3)
    for length in (1, 40, 100):
        arrays = heads(length)
        np.testing.assert_allclose(
            function(*arrays).numpy(),
            ops.convert_to_numpy(windowed_attention(*arrays, **window)),
            atol=1e-5,
        )


UNKNOWN = {
    "window": lambda *x: windowed_attention(*x, 1000, 1000),
    "causal": lambda *x: windowed_attention(*x, 1000, 0, causal=True),
    "dilated, first": lambda *x: windowed_attention(*x, 40, 0, dilation=3, global_tokens=2),
    "random": lambda *x: windowed_attention(*x, 40, 40, random_blocks=2, global_tokens=1),
}


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a graph of TensorFlow")
@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=THOROUGH)])
@pytest.mark.parametrize("name", UNKNOWN)
def test_one_graph_takes_texts_shorter_than_the_window(name, jit_compile):
    import tensorflow as tf

    masks = {
        "window": lambda length: window_mask(length, 1000, 1000),
        "causal": lambda length: window_mask(length, 1000, 0, causal=True),
        "dilated, first": lambda length: window_mask(length, 40, 0, dilation=3, global_tokens=2),
        "random": lambda length: window_mask(length, 40, 40, random_blocks=2, global_tokens=1),
    }
    shape = tf.TensorSpec((None, 3, None, 8), "float32")
    function = tf.function(UNKNOWN[name], [shape] * 3, jit_compile=jit_compile)
    for length in (1, 7, 333) if jit_compile else (0, 1, 7, 121, 333):
        arrays = heads(length)
        expected = scaled_dot_product_attention(*arrays, mask=masks[name](length))
        np.testing.assert_allclose(function(*arrays), expected, atol=1e-5, err_msg=str(length))


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a graph of TensorFlow")
def test_one_graph_takes_grids_smaller_than_the_rectangle():
    import tensorflow as tf

    function = tf.function(
        lambda *x: windowed_attention_2d(*x, (50, 2)),
        [tf.TensorSpec((None, 2, None, None, 4), "float32")] * 3,
    )
    for shape in (1, 1), (3, 7), (9, 13):
        grids = [RANDOM.normal(size=(2, 2, *shape, 4)).astype("float32") for _ in range(3)]
        lines = [x.reshape(2, 2, -1, 4) for x in grids]
        expected = scaled_dot_product_attention(*lines, mask=grid_window_mask(*shape, (50, 2)))
        np.testing.assert_allclose(
            ops.reshape(function(*grids), lines[0].shape), expected, atol=1e-5
        )


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a graph of TensorFlow")
@pytest.mark.thorough
def test_in_a_graph_for_all_lengths_memory_grows_with_length_times_window():
    """The peak of memory of one process that attends forward and back."""
    import subprocess
    import sys

    code = """
import resource
import tensorflow as tf
from keras_attn.ops.windows import windowed_attention

def step(window):
    @tf.function(input_signature=[tf.TensorSpec((1, 2, None, 8))] * 3)
    def differentiate(*x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(windowed_attention(*x, window, window) ** 2)
        return tape.gradient(loss, x)
    return differentiate

x = [tf.random.normal((1, 2, 8192, 8)) for _ in range(3)]
step(8)(*x)
peaks = [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]
step(8192)(*[t[:, :, :100] for t in x])  # a window squared is 256 MB
peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
step(64)(*x)  # the length squared, of two heads, is 512 MB
peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
print(*((after - before) / 1024 for before, after in zip(peaks, peaks[1:])))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    wide, long = map(float, done.stdout.split())
    assert wide < 60 and long < 200, done.stdout


@pytest.mark.parametrize(
    ("window", "message"),
    [
        (
            {"left": -1, "right": 1},
            "left, right and random_blocks of a window must be non-negative",
        ),
        ({"left": 1, "right": 1, "dilation": 0}, "dilation positive"),
        ({"left": 1, "right": 1, "causal": True}, "must have right=0"),
        ({"left": 1, "right": 1, "dilation": 2, "random_blocks": 1}, "not supported with dilation"),
    ],
)
def test_windows_that_cannot_be_are_named(window, message):
    with pytest.raises(ValueError, match=message):
        windowed_attention(*heads(4), **window)


@pytest.mark.parametrize("length", [20, 150])
def test_packed_examples_do_not_attend_to_each_other(length):
    query, key, value = heads(length, batch=2)
    packs = np.sort(np.random.default_rng(3).integers(1, 9, (2, length)), axis=1)
    found = windowed_attention(query, key, value, 3, 5, pack_ids=packs)
    dense = ops.convert_to_numpy(window_mask(length, 3, 5))
    dense = dense & (packs[:, None, :, None] == packs[:, None, None, :])
    expected = scaled_dot_product_attention(query, key, value, mask=dense)
    np.testing.assert_allclose(
        ops.convert_to_numpy(found), ops.convert_to_numpy(expected), atol=1e-5
    )


def test_packed_rows_have_no_global_tokens():
    query, key, value = heads(20, batch=1)
    with pytest.raises(ValueError, match="pack_ids are not supported with global tokens"):
        windowed_attention(query, key, value, 3, 3, global_tokens=1, pack_ids=np.ones((1, 20)))
