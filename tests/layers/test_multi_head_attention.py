import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import MultiHeadAttention
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

HEADS, KEY_DIM, VALUE_DIM = 2, 3, 3


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def reference(weights, query, value, key=None, mask=None, value_dim=VALUE_DIM, scores=False):
    """Vaswani et al., section 3.2.2, one head after another."""
    key = value if key is None else key
    kernels = [weights[k] for k in weights if k.endswith("_kernel") and k != "output_kernel"]
    biases = [weights[k] for k in weights if k.endswith("_bias") and k != "output_bias"]
    bias = np.concatenate(biases)
    if len(kernels) == 1:
        kernels = np.split(kernels[0], [HEADS * KEY_DIM, 2 * HEADS * KEY_DIM], axis=1)
    elif len(kernels) == 2:
        kernels = [kernels[0], *np.split(kernels[1], [HEADS * KEY_DIM], axis=1)]
    q, k, v = (x @ kernel for x, kernel in zip((query, key, value), kernels, strict=True))
    q = q + bias[: HEADS * KEY_DIM]
    k = k + bias[HEADS * KEY_DIM : 2 * HEADS * KEY_DIM]
    v = v + bias[2 * HEADS * KEY_DIM :]
    heads, all_weights = [], []
    for h in range(HEADS):
        columns = slice(h * KEY_DIM, (h + 1) * KEY_DIM)
        logits = q[..., columns] @ k[..., columns].swapaxes(1, 2) / np.sqrt(KEY_DIM)
        if mask is not None:
            logits = np.where(mask, logits, -1e300)
        attention = softmax(logits)
        if mask is not None:
            attention = np.where(mask, attention, 0.0)
        all_weights.append(attention)
        heads.append(attention @ v[..., h * value_dim : (h + 1) * value_dim])
    if scores:
        return np.stack(all_weights, axis=1)
    return np.concatenate(heads, axis=-1) @ weights["output_kernel"] + weights["output_bias"]


def make(**kwargs):
    return MultiHeadAttention(HEADS, KEY_DIM, **{"seed": 1, **kwargs})


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


MASK = np.array([[1, 1, 0, 1], [1, 0, 0, 0]])


@pytest.mark.parametrize("check, fused", each_check(["qkv", "kv", None], "qkv"))
def test_every_check_of_a_layer_with_keys_masked(check, fused):
    inputs = {"query": normal(2, 3, 5), "value": normal(2, 4, 5, seed=1), "value_mask": MASK}

    def masked(weights, query, value, value_mask):
        return reference(weights, query, value, mask=value_mask[:, None, :] > 0)

    check(lambda **k: make(fused=fused, **k), inputs, masked)


def test_every_check_of_a_layer_with_key_and_value_of_other_depths():
    inputs = {
        "query": normal(2, 3, 5),
        "value": normal(2, 4, 6, seed=1),
        "key": normal(2, 4, 7, seed=2),
    }
    check_layer(
        lambda **k: make(fused=None, value_dim=4, output_dim=8, **k),
        inputs,
        lambda weights, **named: reference(weights, **named, value_dim=4),
    )


@pytest.mark.parametrize("value_dim", [3, 4])
@pytest.mark.parametrize("fused", ["qkv", "kv", None])
def test_self_attention_is_the_same_whether_or_not_one_product_serves_it(fused, value_dim):
    layer = make(fused=fused, value_dim=value_dim)
    x = ops.convert_to_tensor(normal(2, 4, 5))
    randomize(layer, {"query": x, "value": x})
    one = ops.convert_to_numpy(layer(x, x))
    copies = ops.convert_to_numpy(layer(x, x + 0.0, x * 1.0))
    expected = reference(weights_of(layer), normal(2, 4, 5), normal(2, 4, 5), value_dim=value_dim)
    np.testing.assert_allclose(one, expected, 1e-5, 1e-5)
    np.testing.assert_allclose(copies, expected, 1e-5, 1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_it_equals_keras_own_layer_with_the_same_weights(causal):
    query, value = normal(2, 5, 6), normal(2, 7, 8, seed=1)
    mask = np.random.default_rng(2).random((2, 5, 7)) < 0.7
    mask[..., 0] = True
    ours = make(fused=None, value_dim=4, causal_align="start")
    theirs = keras.layers.MultiHeadAttention(HEADS, KEY_DIM, value_dim=4)
    theirs.build(query.shape, value.shape)
    randomize(ours, {"query": query, "value": value})
    found = weights_of(ours)
    parts = []
    for name, dim in (("query", KEY_DIM), ("key", KEY_DIM), ("value", 4)):
        parts += [
            found[f"{name}_kernel"].reshape(-1, HEADS, dim),
            found[f"{name}_bias"].reshape(HEADS, dim),
        ]
    theirs.set_weights([*parts, found["output_kernel"].reshape(HEADS, 4, -1), found["output_bias"]])
    options = {"attention_mask": mask, "use_causal_mask": causal, "return_attention_scores": True}
    for a, b in zip(ours(query, value, **options), theirs(query, value, **options), strict=True):
        np.testing.assert_allclose(ops.convert_to_numpy(a), ops.convert_to_numpy(b), atol=1e-5)


def test_outputs_move_with_inputs_and_heads_have_no_order():
    x, order = normal(2, 6, 5), np.random.default_rng(1).permutation(6)
    layer = make()
    whole = run(layer, {"query": x, "value": x})
    moved = run(layer, {"query": x[:, order], "value": x[:, order]})
    np.testing.assert_allclose(moved, whole[:, order], atol=1e-6)
    others = [
        ops.convert_to_numpy(layer(x, normal(2, 4, 5)[:, order]))
        for order in ([0, 1, 2, 3], [2, 0, 3, 1])
    ]
    np.testing.assert_allclose(*others, atol=1e-6)
    swapped = make(fused=None)
    swapped.build(x.shape, x.shape)
    before = run(swapped, {"query": x, "value": x})
    turn = np.roll(np.arange(HEADS * KEY_DIM), KEY_DIM)
    for weight in swapped.weights:
        values = ops.convert_to_numpy(weight)
        weight.assign(
            values[turn]
            if weight.name == "output_kernel"
            else values
            if weight.name == "output_bias"
            else values[..., turn]
        )
    np.testing.assert_allclose(run(swapped, {"query": x, "value": x}), before, atol=1e-6)


def test_one_head_with_unit_kernels_is_scaled_dot_product_attention():
    query, value = normal(2, 3, 4), normal(2, 5, 4, seed=1)
    layer = MultiHeadAttention(1, 4, use_bias=False, fused=None, kernel_initializer="identity")
    weights = softmax(query @ value.swapaxes(1, 2) / 2.0)
    np.testing.assert_allclose(
        run(layer, {"query": query, "value": value}), weights @ value, atol=1e-6
    )


def test_initial_weights_do_not_depend_on_fusing():
    # As far as their scale goes: Glorot's limit is that of each part's own shape.
    layer = MultiHeadAttention(4, 16)
    layer.build((None, None, 64), (None, None, 64))
    limit = np.sqrt(6 / (64 + 64))
    largest = np.abs(weights_of(layer)["query_key_value_kernel"]).max()
    assert 0.95 * limit < largest <= limit


@pytest.mark.parametrize("align,offset", [("end", 1), ("start", 0)])
def test_causal_mask_is_aligned_as_asked(align, offset):
    layer = make(causal_align=align)
    inputs = {"query": normal(1, 3, 5), "value": normal(1, 4, 5, seed=1)}
    found = run(layer, inputs, {"use_causal_mask": True, "return_attention_scores": True}, index=1)
    visible = np.arange(4) <= np.arange(3)[:, None] + offset
    expected = reference(weights_of(layer), **inputs, mask=visible, scores=True)
    np.testing.assert_allclose(found, expected, 1e-5, 1e-6)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (2, 1, 3, 4), (2, 2, 3, 4)])
def test_attention_mask_may_have_any_rank(shape):
    layer = make()
    mask = np.random.default_rng(0).integers(0, 2, shape)
    mask[..., 0] = 1
    inputs = {"query": normal(2, 3, 5), "value": normal(2, 4, 5, seed=1)}
    found = run(layer, inputs, {"attention_mask": mask, "return_attention_scores": True}, index=1)
    full = np.broadcast_to(mask if len(shape) != 3 else mask[:, None], (2, 2, 3, 4))
    for head in range(HEADS):
        expected = reference(weights_of(layer), **inputs, mask=full[:, head] > 0, scores=True)
        np.testing.assert_allclose(found[:, head], expected[:, head], 1e-5, 1e-6)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_a_row_with_no_key_gives_the_output_bias_and_weights_of_zero(policy):
    layer = make(dtype=policy)
    x = normal(2, 4, 5)
    inputs = {"query": x, "value": x, "value_mask": np.array([[0, 0, 0, 0], [1, 1, 0, 0]])}
    randomize(layer, inputs)
    bias = ops.convert_to_numpy(
        ops.cast(ops.cast(layer.output_bias, layer.compute_dtype), "float32")
    )
    arguments = {"return_attention_scores": True}
    for outputs in (run(layer, inputs), run(layer, inputs, arguments)):
        np.testing.assert_array_equal(outputs[0], np.broadcast_to(bias, (4, 5)))
        assert np.abs(outputs[1] - bias).min() > 0
    np.testing.assert_array_equal(run(layer, inputs, arguments, index=1)[0], 0.0)
    by_path, by_input = layer_gradients(layer, inputs)
    for name, gradient in {**by_path, **by_input}.items():
        assert np.isfinite(np.asarray(gradient, "float32")).all(), name
    np.testing.assert_array_equal(np.asarray(by_input["value"][0], "float32"), 0.0)


def test_query_mask_silences_queries_and_hides_no_key():
    layer = make()
    x = normal(1, 3, 5)
    randomize(layer, {"query": x, "value": x})
    plain = run(layer, {"query": x, "value": x})
    mask = np.array([[1, 0, 1]])
    found = run(layer, {"query": x, "value": x, "query_mask": mask})
    np.testing.assert_allclose(found[:, [0, 2]], plain[:, [0, 2]], 1e-6, 1e-6)
    np.testing.assert_allclose(found[0, 1], ops.convert_to_numpy(layer.output_bias), 1e-6)
    scores = run(
        layer,
        {"query": x, "value": x, "query_mask": mask},
        {"return_attention_scores": True},
        index=1,
    )
    np.testing.assert_array_equal(scores[:, :, 1], 0.0)
    np.testing.assert_allclose(scores[:, :, [0, 2]].sum(-1), 1.0, 1e-5)


def test_padding_never_reaches_the_output():
    layer = make()
    inputs = {"query": normal(2, 3, 5), "value": normal(2, 4, 5, seed=1), "value_mask": MASK}
    randomize(layer, inputs)
    expected = run(layer, inputs)
    for other in with_other_padding(inputs, "value_mask", ["value"]):
        np.testing.assert_allclose(run(layer, other), expected, 1e-5, 1e-5)


def test_masks_of_keras_work_without_an_argument():
    ids = np.array([[3, 4, 0, 0], [5, 0, 0, 0]])
    embedding = keras.layers.Embedding(9, 5, mask_zero=True)
    recurrent = keras.layers.Bidirectional(keras.layers.LSTM(3, return_sequences=True))
    layer = make()
    tokens = keras.Input((None,), dtype="int32")
    x = recurrent(embedding(tokens))
    model = keras.Model(tokens, layer(x, x, return_attention_scores=True))
    output, scores = model(ids)
    assert [w.shape for w in (output, scores)] == [(2, 4, 6), (2, 2, 4, 4)]
    scores = ops.convert_to_numpy(scores)
    np.testing.assert_array_equal(scores[0, :, :, 2:], 0.0)
    np.testing.assert_array_equal(scores[0, :, 2:], 0.0)
    np.testing.assert_allclose(scores[0, :, :2].sum(-1), 1.0, 1e-5)
    explicit, _ = layer(
        recurrent(embedding(ids)),
        recurrent(embedding(ids)),
        query_mask=ids > 0,
        value_mask=ids > 0,
        return_attention_scores=True,
    )
    np.testing.assert_allclose(
        ops.convert_to_numpy(output), ops.convert_to_numpy(explicit), 1e-5, 1e-6
    )


@pytest.mark.parametrize("step, value_dim", quick([(1, 3), (1, 4), (2, 3), (2, 4)], (1, 4), (2, 3)))
def test_decoding_with_a_cache_equals_one_full_pass(step, value_dim):
    layer = make(value_dim=value_dim)
    x = ops.convert_to_tensor(normal(2, 6, 5))
    mask = np.array([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1]])
    full = layer(x, x, value_mask=mask, use_causal_mask=True)
    longer = np.concatenate([mask, np.ones((2, 2), int)], axis=1)

    def decode(part, cache, index):
        return layer(part, part, value_mask=longer, cache=cache, cache_index=index)

    for function in (decode, compiled(decode)):
        cache, parts = layer.make_cache(2, 8), []
        for i in range(0, 6, step):
            index = ops.convert_to_tensor(i, dtype="int32")
            part, cache = function(x[:, i : i + step], cache, index)
            parts.append(ops.convert_to_numpy(part))
        np.testing.assert_allclose(np.concatenate(parts, 1), ops.convert_to_numpy(full), 1e-5, 1e-5)


@pytest.mark.parametrize("step", [1, 3])
def test_a_mask_of_keras_is_no_mask_of_the_cache(step):
    ids = np.array([[3, 4, 5, 1, 0, 0], [5, 0, 2, 2, 1, 0]])
    embedding = keras.layers.Embedding(9, 5, mask_zero=True)
    layer = make()
    x = ops.convert_to_tensor(ops.convert_to_numpy(embedding(ids)))  # without the mask
    mask = np.concatenate([ids > 0, np.ones((2, 2), bool)], axis=1)
    full = layer(x, x, query_mask=ids > 0, value_mask=mask[:, :6], use_causal_mask=True)
    unmasked = layer(x, x, query_mask=ids > 0, use_causal_mask=True)
    tokens, index = keras.Input((step,), dtype="int32"), keras.Input((), dtype="int32")
    cached = keras.Input((2, 8, 3)), keras.Input((2, 8, 3))
    embedded = embedding(tokens)
    output = layer(embedded, embedded, cache=cached, cache_index=index[0])
    model = keras.Model([tokens, cached, index], output)

    def decode(part, cache, index, **masks):
        embedded = embedding(part)
        return layer(embedded, embedded, cache=cache, cache_index=index, **masks)

    def replay(part, cache, index):
        return model(
            keras.tree.map_structure(ops.convert_to_numpy, [part, cache, np.array([index, index])])
        )

    for function, expected, masks in (
        (decode, full, {"value_mask": mask}), (decode, unmasked, {}), (replay, unmasked, {}),
    ):  # fmt: skip
        cache, parts = layer.make_cache(2, 8), []
        for i in range(0, 6, step):
            part, cache = function(ids[:, i : i + step], cache, i, **masks)
            parts.append(ops.convert_to_numpy(part))
        found = np.concatenate(parts, 1)
        np.testing.assert_allclose(found, ops.convert_to_numpy(expected), 1e-5, 1e-5)


def test_dropout_repeats_by_seed_and_is_absent_at_inference_and_from_scores():
    x = ops.convert_to_tensor(normal(2, 6, 5))
    outputs = []
    for _ in range(2):
        layer = make(dropout=0.5)
        first = layer(x, x, training=True)
        second, scores = layer(x, x, return_attention_scores=True, training=True)
        quiet = layer(x, x)
        outputs.append([ops.convert_to_numpy(t) for t in (first, second, scores, quiet)])
    for one, two in zip(*outputs, strict=True):
        np.testing.assert_array_equal(one, two)
    first, second, scores, quiet = outputs[0]
    assert np.abs(first - second).max() > 1e-3
    np.testing.assert_allclose(scores.sum(-1), 1.0, 1e-5)
    plain = make()
    plain(x, x)
    np.testing.assert_array_equal(ops.convert_to_numpy(plain(x, x)), quiet)
    assert not [v for v in plain.variables if "seed" in v.path]


def test_other_seeds_give_other_weights():
    first, second = make(seed=1), make(seed=2)
    for layer in (first, second):
        layer.build((None, None, 5), (None, None, 5))
    one, two = weights_of(first), weights_of(second)
    assert np.abs(one["output_kernel"] - two["output_kernel"]).max() > 0.1


@pytest.mark.parametrize(
    "arguments,message",
    [
        ({"num_heads": 0}, "num_heads=0"),
        ({"value_dim": 0}, "value_dim=0"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"fused": "all"}, "fused='all'"),
        ({"causal_align": "middle"}, "causal_align='middle'"),
    ],
)
def test_arguments_out_of_range_are_errors_that_name_them(arguments, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(**{"num_heads": 2, "key_dim": 3, **arguments})


def test_calls_that_cannot_be_right_are_errors():
    x = ops.convert_to_tensor(normal(2, 3, 5))
    with pytest.raises(ValueError, match="the same depth"):
        make()(x, ops.ones((2, 3, 7)))
    layer = make()
    with pytest.raises(ValueError, match="attention_mask > 0.5"):
        layer(x, x, attention_mask=np.ones((2, 3, 3), "float32"))
    with pytest.raises(ValueError, match="cache_index"):
        layer(x, x, cache=layer.make_cache(2, 4))
    with pytest.raises(ValueError, match="up to 5"):
        layer(x, x, cache=layer.make_cache(2, 4), cache_index=2)
    with pytest.raises(ValueError, match="value_mask must have the length of the cache"):
        layer(x, x, value_mask=np.ones((2, 3)) > 0, cache=layer.make_cache(2, 4), cache_index=0)
