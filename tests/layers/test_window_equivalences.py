"""Windows equal full attention, Keras's sliding windows, and themselves when cached or padded."""

import inspect

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import (
    ExpandedWindowAttention,
    MixedAttention,
    MultiHeadAttention,
    RelativeAttention,
    WindowAttention,
)
from tests.support.layer_checks import randomize, run, weights_of
from tests.support.numpy_attention import band

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(2, 9, 12)).astype("float32")
LONG = RANDOM.normal(size=(2, 75, 12)).astype("float32")
MASK = np.array([[1] * 60 + [0] * 15, [0] * 75])


def test_blocks_that_no_seed_draws_are_the_same_after_loading():
    layer = ExpandedWindowAttention(2, 6, 1, random_blocks=1)
    x = np.random.default_rng(1).normal(size=(1, 170, 12)).astype("float32")
    _, weights = layer(x, return_attention_scores=True)
    copy = ExpandedWindowAttention.from_config(layer.get_config())
    copy.build(x.shape)
    _, again = same_weights(layer, copy)(x, return_attention_scores=True)
    np.testing.assert_array_equal(ops.convert_to_numpy(weights), ops.convert_to_numpy(again))


@pytest.mark.skipif(
    "sliding_window" not in inspect.signature(keras.layers.MultiHeadAttention).parameters,
    reason="this Keras has no sliding windows",
)
@pytest.mark.parametrize("radius", [0, 3, 40, 90])
@pytest.mark.parametrize("causal", [False, True])
def test_a_window_equals_the_sliding_one_of_keras(causal, radius):
    layer, theirs = (
        WindowAttention(2, 6, radius, causal),
        keras.layers.MultiHeadAttention(2, 6, sliding_window=radius + 1),
    )
    randomize(layer, {"query": LONG})
    theirs.build(LONG.shape, LONG.shape)
    weights, parts = weights_of(layer), []
    for kernel, bias in zip(
        *(np.split(weights[f"query_key_value_{name}"], 3, axis=-1) for name in ("kernel", "bias")),
        strict=True,
    ):
        parts += [kernel.reshape(12, 2, 6), bias.reshape(2, 6)]
    theirs.set_weights([*parts, weights["output_kernel"].reshape(2, 6, 12), weights["output_bias"]])
    expected = theirs(LONG, LONG, use_causal_mask=causal)
    np.testing.assert_allclose(
        run(layer, {"query": LONG}), ops.convert_to_numpy(expected), atol=1e-5
    )


def same_weights(layer, other):
    for variable, source in zip(other.weights, layer.weights, strict=True):
        variable.assign(source)
    return other


def test_a_window_equals_multi_head_attention_with_a_mask():
    layer = WindowAttention(2, 6, 5, seed=1)
    found = run(layer, {"query": LONG}, {"query_mask": MASK})
    plain = MultiHeadAttention(2, 6)
    plain.build(LONG.shape, LONG.shape)
    expected = same_weights(layer, plain)(
        LONG, LONG, query_mask=MASK, value_mask=MASK, attention_mask=band(75, 5, 5)[None]
    )
    np.testing.assert_allclose(found, ops.convert_to_numpy(expected), atol=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: WindowAttention(2, 6, 5, seed=1),
        lambda: ExpandedWindowAttention(2, 6, window=4, extension=2, seed=1),
        lambda: ExpandedWindowAttention(
            2, 6, window=1, extension=3, dilation=2, global_tokens=2, seed=1
        ),
        lambda: ExpandedWindowAttention(
            2,
            6,
            window=1,
            extension=3,
            global_tokens=2,
            random_blocks=1,
            separate_global_projections=True,
            seed=1,
        ),
    ],
    ids=["window", "extension", "dilation", "own projections"],
)
def test_asking_for_weights_or_giving_a_mask_changes_no_output(make):
    layer = make()
    found = run(layer, {"query": LONG}, {"query_mask": MASK})
    output, weights = layer(LONG, query_mask=MASK, return_attention_scores=True)
    np.testing.assert_allclose(found, ops.convert_to_numpy(output), atol=1e-5)
    sums = ops.convert_to_numpy(weights).sum(-1)
    np.testing.assert_allclose(sums, np.broadcast_to(MASK[:, None], sums.shape), atol=1e-5)
    everything = run(
        layer, {"query": LONG}, {"query_mask": MASK, "attention_mask": np.ones((1, 75, 75), bool)}
    )
    np.testing.assert_allclose(found, everything, atol=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: WindowAttention(2, 6, 3, seed=1),
        lambda: ExpandedWindowAttention(2, 6, window=1, extension=3, global_tokens=2, seed=1),
    ],
    ids=["window", "global"],
)
def test_cached_equals_one_causal_pass(make):
    layer = make()
    whole = run(layer, {"query": X}, {"use_causal_mask": True})
    cache = layer.make_cache(2, 9)
    for index in range(9):
        found, cache = layer(
            X[:, index : index + 1], use_causal_mask=True, cache=cache, cache_index=index
        )
        np.testing.assert_allclose(
            ops.convert_to_numpy(found)[:, 0], whole[:, index], atol=1e-5, err_msg=str(index)
        )


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a graph of TensorFlow")
@pytest.mark.parametrize(
    "make",
    [
        lambda: WindowAttention(1, 2, 3),
        lambda: ExpandedWindowAttention(1, 2, window=1, extension=3, dilation=2, global_tokens=2),
    ],
    ids=["window", "expanded"],
)
def test_a_step_with_a_cache_forms_nothing_of_the_length_squared(make):
    import tensorflow as tf

    layer, x = make(), np.ones((1, 1, 2), "float32")
    cache = layer.make_cache(1, 99)
    layer(x, cache=cache, cache_index=0)
    step = tf.function(lambda *cache: layer(x, cache=cache, cache_index=tf.constant(5)))
    sizes = [
        output.shape.num_elements() or 0
        for operation in step.get_concrete_function(*cache).graph.get_operations()
        for output in operation.outputs
    ]
    assert max(sizes) == 99 * 2  # the cache


def test_padding_never_reaches_the_output_of_a_window():
    layer = WindowAttention(2, 6, 4, seed=1)
    short = run(layer, {"query": LONG[:, :60]})
    long = run(layer, {"query": LONG}, {"query_mask": MASK})
    np.testing.assert_allclose(long[0, :60], short[0], atol=1e-5)
    bias = ops.convert_to_numpy(layer.heads.output_bias)
    np.testing.assert_allclose(long[1], np.broadcast_to(bias, long[1].shape))


@pytest.mark.parametrize(
    "make",
    [
        lambda: WindowAttention(2, 6, 2, seed=1),
        lambda: MixedAttention(2, 6, 2, seed=1),
        lambda: ExpandedWindowAttention(2, 6, 2, 1, seed=1),
        lambda: RelativeAttention(2, 6, seed=1),
    ],
    ids=["window", "mixed", "expanded", "relative"],
)
def test_the_query_may_be_given_as_value_and_key(make):
    layer = make()
    alone = ops.convert_to_numpy(layer(X))
    np.testing.assert_array_equal(ops.convert_to_numpy(layer(X, X, X)), alone)
    inputs = keras.Input((None, 12))
    model = keras.Model(inputs, layer(inputs, inputs))
    np.testing.assert_allclose(ops.convert_to_numpy(model(X)), alone, atol=1e-6)


def test_a_mask_of_values_in_a_cache_holds_though_it_is_the_querys():
    layer = WindowAttention(2, 6, 20, seed=1)
    mask = np.array([[0] + [1] * 8] * 2)
    cache = layer.make_cache(2, 9)
    found, _ = layer(X, query_mask=mask, value_mask=mask, cache=cache, cache_index=0)
    expected = layer(X, query_mask=mask, value_mask=mask, use_causal_mask=True)
    np.testing.assert_allclose(
        ops.convert_to_numpy(found), ops.convert_to_numpy(expected), atol=1e-5
    )


def test_a_wide_window_is_full_attention():
    layer = WindowAttention(2, 6, 100, seed=1)
    found = run(layer, {"query": LONG})
    plain = MultiHeadAttention(2, 6)
    plain.build(LONG.shape, LONG.shape)
    np.testing.assert_allclose(
        found, ops.convert_to_numpy(same_weights(layer, plain)(LONG, LONG)), atol=1e-5
    )


def test_a_window_on_a_grid_sees_a_rectangle():
    grid = X[:, :6].reshape(2, 2, 3, 12)
    mask = np.array([[[1, 1, 1], [1, 1, 0]], [[0, 0, 0], [0, 0, 0]]])
    layer = WindowAttention(2, 6, (0, 1), seed=1)
    found = run(layer, {"query": grid}, {"query_mask": mask})
    output, weights = layer(grid, query_mask=mask, return_attention_scores=True)
    np.testing.assert_allclose(found, ops.convert_to_numpy(output), atol=1e-5)
    sees = ops.convert_to_numpy(weights)[0, 0] > 0
    rows = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]])
    expected = np.block([[rows, np.zeros((3, 3))], [np.zeros((3, 3)), rows]])
    expected[5], expected[:, 5] = 0, 0
    np.testing.assert_array_equal(sees, expected)


@pytest.mark.thorough
def test_an_embedding_with_a_mask_needs_no_argument():
    tokens = np.array([[5, 3, 8, 2, 0, 0], [4, 1, 0, 0, 0, 0]])
    ids, seen = keras.Input((6,), dtype="int32"), keras.Input((6, 6), dtype="int32")
    embedding = keras.layers.Embedding(9, 12, mask_zero=True)
    x = embedding(ids)
    layers = (
        WindowAttention(2, 6, 1, seed=1),
        ExpandedWindowAttention(2, 6, 1, 1, seed=1),
        MixedAttention(2, 6, 1, seed=1),
        RelativeAttention(2, 6, seed=1),
    )
    # Keras hands its mask over in another way where there are more tensors.
    outputs = [(layer(x), layer(x, attention_mask=seen)) for layer in layers]
    compiled = keras.Model([ids, seen], outputs).predict([tokens, np.ones((2, 6, 6))], verbose=0)
    embedded = embedding(tokens)
    for layer, found in zip(layers, compiled, strict=True):
        expected = run(layer, {"query": ops.convert_to_numpy(embedded)}, {"query_mask": tokens > 0})
        for output in (*found, ops.convert_to_numpy(layer(embedded))):
            np.testing.assert_allclose(output, expected, atol=1e-5)


@pytest.mark.parametrize(("bias", "window"), [(40.0, 99), (-40.0, 2)], ids=["global", "local"])
def test_an_open_gate_is_global_and_a_closed_one_local(bias, window):
    layer = MixedAttention(2, 6, 2, gate="scalar", seed=1)
    run(layer, {"query": X})
    layer.gate_bias.assign([bias])
    other = WindowAttention(2, 6, window)
    run(other, {"query": X})
    for variable in other.weights:
        variable.assign(
            next(v for v in layer.weights if v.path.split("/")[-1] == variable.path.split("/")[-1])
        )
    np.testing.assert_allclose(run(layer, {"query": X}), run(other, {"query": X}), atol=1e-5)


@pytest.mark.parametrize("mix", ["gate", "heads", "cascade"])
def test_padding_never_reaches_the_output_of_mixed_attention(mix):
    layer = MixedAttention(2, 6, 2, mix=mix, seed=1)
    short = run(layer, {"query": LONG[:, :60]})
    long = run(layer, {"query": LONG}, {"query_mask": MASK})
    np.testing.assert_allclose(long[0, :60], short[0], atol=1e-5)
