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
from keras_attn.ops.windows import window_mask
from tests.support.layer_checks import check_layer, randomize, run, weights_of
from tests.support.quick import each_check

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(2, 9, 12)).astype("float32")
LONG = RANDOM.normal(size=(2, 75, 12)).astype("float32")
MASK = np.array([[1] * 60 + [0] * 15, [0] * 75])


def band(length, left, right):
    distance = np.arange(length) - np.arange(length)[:, None]
    return (-left <= distance) & (distance <= right)


def softmax(logits):
    exponents = np.exp(logits - logits.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)


def projections(weights, x, heads, depth, prefix=""):
    """Queries, keys and values `(B, H, T, K)` in NumPy."""
    kernel, bias = (weights[f"{prefix}query_key_value_{name}"] for name in ("kernel", "bias"))
    projected = x @ kernel + bias
    return [
        part.reshape(*x.shape[:2], heads, depth).transpose(0, 2, 1, 3)
        for part in np.split(projected, 3, axis=-1)
    ]


def joined(weights, heads):
    batch, _, length, _ = heads.shape
    rows = heads.transpose(0, 2, 1, 3).reshape(batch, length, -1)
    return rows @ weights["output_kernel"] + weights["output_bias"]


def masked_reference(mask, heads=2, depth=6, own=0):
    """The first `own` positions look by projections of their own; a grid is a line of its rows."""

    def looked(weights, x, prefix=""):
        q, k, v = projections(weights, x, heads, depth, prefix)
        return softmax(np.where(mask, q @ k.swapaxes(-1, -2) / np.sqrt(depth), -np.inf)) @ v

    def reference(weights, query):
        x = query.reshape(len(query), -1, query.shape[-1])
        found = looked(weights, x)
        if own:
            found[:, :, :own] = looked(weights, x, "global_")[:, :, :own]
        return joined(weights, found).reshape(query.shape)

    return reference


def grid_band(rows, columns, down, aside):
    """Pairs of places of a grid, one row after the other."""
    y, x = np.divmod(np.arange(rows * columns), columns)
    return (abs(y[:, None] - y) <= down) & (abs(x[:, None] - x) <= aside)


BANDS = {
    "window": (lambda **kwargs: WindowAttention(2, 6, 2, **kwargs), band(9, 2, 2)),
    "causal": (lambda **kwargs: WindowAttention(2, 6, 2, causal=True, **kwargs), band(9, 2, 0)),
    "extension": (
        lambda **kwargs: ExpandedWindowAttention(2, 6, window=3, extension=1, **kwargs),
        band(9, 1, 3),
    ),
    "global": (
        lambda **kwargs: ExpandedWindowAttention(
            2, 6, window=1, extension=1, global_tokens=2, **kwargs
        ),
        band(9, 1, 1) | (np.arange(9) < 2) | (np.arange(9) < 2)[:, None],
    ),
}


@pytest.mark.parametrize("check, name", each_check(BANDS, "window"))
def test_windows_are_attention_with_a_band_mask(check, name):
    make, mask = BANDS[name]
    check(lambda **kwargs: make(seed=1, **kwargs), {"query": X}, masked_reference(mask))


@pytest.mark.parametrize(
    "check, rows, columns, window",
    each_check([(6, 9, (1, 2)), (5, 6, (0, 5))], (6, 9, (1, 2))),
)
def test_windows_on_a_grid_are_attention_with_a_rectangle_as_mask(check, rows, columns, window):
    grid = np.random.default_rng(1).normal(size=(2, rows, columns, 12)).astype("float32")
    check(
        lambda **kwargs: WindowAttention(2, 6, window, seed=1, **kwargs),
        {"query": grid},
        masked_reference(grid_band(rows, columns, *window)),
    )


STEPS = np.arange(9) - np.arange(9)[:, None]


WAYS_OUT = {
    "dilation": ({"extension": 2, "dilation": 2}, (STEPS % 2 == 0) & band(9, 4, 4)),
    "own projections": ({"extension": 1, "separate_global_projections": True}, band(9, 1, 1)),
}


@pytest.mark.parametrize("check, name", each_check(WAYS_OUT, "own projections"))
def test_ways_out_of_a_window_are_attention_with_a_mask(check, name):
    options, near = WAYS_OUT[name]
    is_first = np.arange(9) < 2
    check(
        lambda **kwargs: ExpandedWindowAttention(
            2, 6, 1, global_tokens=2, **options, seed=1, **kwargs
        ),
        {"query": X},
        masked_reference(
            near | is_first | is_first[:, None],
            own=2 if "separate_global_projections" in options else 0,
        ),
    )


def test_random_blocks_are_attention_with_a_mask():
    x = np.random.default_rng(1).normal(size=(2, 106, 12)).astype("float32")
    # Which blocks are drawn is `window_mask`'s to say; tests/ops/test_windows.py counts them.
    is_first = np.arange(106) < 2
    near = band(106, 1, 1) | is_first | is_first[:, None]
    drawn = ops.convert_to_numpy(window_mask(106, 1, 1, random_blocks=1, seed=1))
    assert (drawn & ~near)[2:].sum(axis=1).min() >= 10  # the last block is of 10
    check_layer(
        lambda **kwargs: ExpandedWindowAttention(
            2, 6, 1, 1, random_blocks=1, global_tokens=2, seed=1, **kwargs
        ),
        {"query": x},
        masked_reference(near | drawn),
    )


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


@pytest.mark.parametrize("check, gate", each_check(["query", "head", "scalar"], "query"))
def test_a_gate_mixes_global_and_local_attention(check, gate):
    def reference(weights, query):
        q, k, v = projections(weights, query, 2, 6)
        logits = q @ k.swapaxes(-1, -2) / np.sqrt(6)
        everywhere = softmax(logits)
        nearby = softmax(np.where(band(9, 2, 2), logits, -np.inf))
        share = np.broadcast_to(weights["gate_bias"], (2,))[None, :, None, None]
        if gate == "query":
            share = share + (query @ weights["gate_kernel"]).transpose(0, 2, 1)[..., None]
        share = 1 / (1 + np.exp(-share))
        return joined(weights, (share * everywhere + (1 - share) * nearby) @ v)

    check(
        lambda **kwargs: MixedAttention(2, 6, 2, gate=gate, seed=1, **kwargs),
        {"query": X},
        reference,
    )


@pytest.mark.parametrize("check, mix", each_check(["heads", "cascade"], "cascade"))
def test_mixes_without_a_gate_equal_numpy(check, mix):
    def reference(weights, query):
        q, k, v = projections(weights, query, 2, 6)
        logits = q @ k.swapaxes(-1, -2) / np.sqrt(6)
        near = band(9, 2, 2)
        if mix == "cascade":
            attention = np.where(near, softmax(logits), 0)
        else:
            attention = np.stack(
                [softmax(logits[:, 0]), softmax(np.where(near, logits[:, 1], -np.inf))], axis=1
            )
        return joined(weights, attention @ v)

    check(
        lambda **kwargs: MixedAttention(2, 6, 2, mix=mix, seed=1, **kwargs), {"query": X}, reference
    )


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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WindowAttention(2, 6, -1), "window must be"),
        (lambda: WindowAttention(2, 6, (1, 2, 3)), "a pair of them"),
        (lambda: WindowAttention(2, 6, (1, 2), causal=True), "causal is not supported on a grid"),
        (lambda: WindowAttention(2, 6, 1)(X, X + 1), "value must be the query"),
        (lambda: WindowAttention(2, 6, 1)(X, query_mask=np.ones((2, 9))), "must be boolean"),
        (lambda: ExpandedWindowAttention(2, 6, 0), "window must be a positive integer"),
        (lambda: ExpandedWindowAttention(2, 6, 2.0), "window=2.0"),
        (lambda: ExpandedWindowAttention(2, 6, 2, dilation=1.5), "dilation=1.5"),
        (lambda: WindowAttention(2, 6, 1.5), "window=1.5"),
        (lambda: WindowAttention(2, 6, (1, 1.5)), r"window=\(1, 1.5\)"),
        (lambda: MixedAttention(2, 6, 1.5), "window=1.5"),
        (lambda: WindowAttention(2, 6, 1)(np.ones((2, 3, 4, 5))), r"shape \(2, 3, 4, 5\)"),
        (
            lambda: WindowAttention(2, 6, (1, 1))(np.ones((2, 3, 4))),
            r"query must be of shape \(B, Y, X, D\)",
        ),
        (
            lambda: ExpandedWindowAttention(2, 6, 1, separate_global_projections=True),
            "global_tokens",
        ),
        (lambda: ExpandedWindowAttention(2, 6, 1, dilation=2, random_blocks=1), "with dilation"),
        (lambda: MixedAttention(2, 6, 1, mix="both"), "mix must be one of"),
        (lambda: MixedAttention(2, 6, 1, gate="row"), "gate must be one of"),
        (lambda: MixedAttention(2, 6, 1, "heads", global_heads=3), "global_heads must be in"),
        (lambda: MixedAttention(4, 6, 1, global_heads=3), 'with mix="heads". .* global_heads=3'),
        (lambda: MixedAttention(2, 6, 1, "cascade", "head"), "with mix=\"gate\". .* gate='head'"),
        (lambda: MixedAttention(1, 6, 1, "heads"), "at least two heads.* num_heads=1"),
    ],
)
def test_wrong_windows_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
