"""The decoder layer against NumPy, and its cache and memory against one whole pass."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import TransformerDecoderLayer
from tests.support.layer_checks import (
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


def _heads(weights, name, query, key, mask, heads=2):
    """Attention of one kernel for all (self) or one for the query (cross)."""
    if f"{name}/query_key_value_kernel" in weights:
        kernels = np.split(weights[f"{name}/query_key_value_kernel"], 3, axis=-1)
        biases = np.split(weights[f"{name}/query_key_value_bias"], 3)
    else:
        kernels = [
            weights[f"{name}/query_kernel"],
            *np.split(weights[f"{name}/key_value_kernel"], 2, axis=-1),
        ]
        biases = [weights[f"{name}/query_bias"], *np.split(weights[f"{name}/key_value_bias"], 2)]
    q, k, v = (
        x @ kernel + bias
        for x, kernel, bias in zip((query, key, key), kernels, biases, strict=True)
    )
    depth, parts = q.shape[-1] // heads, []
    for h in range(heads):
        columns = slice(h * depth, (h + 1) * depth)
        logits = q[..., columns] @ k[..., columns].swapaxes(1, 2) / np.sqrt(depth)
        e = np.exp(logits - logits.max(-1, keepdims=True)) * mask
        parts.append(e / e.sum(-1, keepdims=True) @ v[..., columns])
    return (
        np.concatenate(parts, -1) @ weights[f"{name}/output_kernel"]
        + weights[f"{name}/output_bias"]
    )


def _norm(weights, name, x):
    centred = x - x.mean(-1, keepdims=True)
    scale = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return centred / scale * weights[f"{name}_norm/gamma"] + weights[f"{name}_norm/beta"]


def _feed_forward(weights, x):
    x = x @ weights["feed_forward/intermediate/kernel"] + weights["feed_forward/intermediate/bias"]
    return (
        np.maximum(x, 0) @ weights["feed_forward/output/kernel"]
        + weights["feed_forward/output/bias"]
    )


def _rms_norm(weights, name, x):
    scale = np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
    return x / scale * weights[f"{name}_norm/scale"]


def reference(weights, inputs, encoded, encoded_mask, norm_first, own_mask=1, norm=_norm):
    length = inputs.shape[1]
    own_mask = np.tril(np.ones((length, length))) * own_mask
    parts = (
        ("self_attention", lambda x: _heads(weights, "self_attention", x, x, own_mask)),
        (
            "cross_attention",
            lambda x: _heads(weights, "cross_attention", x, encoded, encoded_mask[:, None, :] > 0),
        ),
        ("feed_forward", lambda x: _feed_forward(weights, x)),
    )
    x = inputs
    for name, part in parts:
        x = x + part(norm(weights, name, x)) if norm_first else norm(weights, name, x + part(x))
    return x


MASK = np.array([[1, 1, 0, 1, 1], [1, 1, 0, 0, 0]])


def _inputs():
    return {"inputs": normal(2, 4, 6), "encoded": normal(2, 5, 8, seed=1), "encoded_mask": MASK}


@pytest.mark.parametrize("check, norm_first", each_check([False, True], False))
def test_every_check(check, norm_first):
    check(
        lambda **k: TransformerDecoderLayer(2, 7, norm_first=norm_first, seed=1, **k),
        _inputs(),
        lambda weights, **inputs: reference(weights, norm_first=norm_first, **inputs),
        tolerance=3e-5,
    )


@pytest.mark.parametrize("norm_first", [False, True])
def test_rms_norm_replaces_all_three_norms(norm_first):
    layer = TransformerDecoderLayer(2, 7, norm="rms", norm_first=norm_first, seed=1)
    randomize(layer, _inputs())
    expected = reference(weights_of(layer), **_inputs(), norm_first=norm_first, norm=_rms_norm)
    np.testing.assert_allclose(run(layer, _inputs()), expected, atol=3e-5)


def test_a_normalization_layer_is_copied_for_each_of_the_three_places():
    inputs = _inputs()
    group = keras.layers.GroupNormalization(groups=3)
    layer = TransformerDecoderLayer(2, 7, norm=group, seed=1)
    randomize(layer, inputs)
    x = inputs["inputs"]
    x = layer.norms[0](x + layer.self_attention(x, x, use_causal_mask=True))
    x = layer.norms[1](
        x + layer.cross_attention(x, inputs["encoded"], value_mask=inputs["encoded_mask"])
    )
    x = layer.norms[2](x + layer.feed_forward(x))
    np.testing.assert_allclose(run(layer, inputs), ops.convert_to_numpy(x), atol=1e-5)
    assert len({id(norm) for norm in (group, *layer.norms)}) == 4
    assert all(isinstance(norm, keras.layers.GroupNormalization) for norm in layer.norms)


def test_masks_of_the_target_hide_what_is_before_a_position():
    layer, inputs = TransformerDecoderLayer(2, 7, seed=1), _inputs()
    randomize(layer, inputs)
    weights = weights_of(layer)
    padding, pairs = np.array([[1, 1, 0, 1], [1, 1, 1, 0]]), np.ones((2, 4, 4), bool)
    pairs[0, 3, 1] = pairs[1, 2, :2] = False
    for masks, own in (
        ({"padding_mask": padding}, padding[:, None, :]),
        ({"attention_mask": pairs}, pairs),
        ({"padding_mask": padding, "attention_mask": pairs}, padding[:, None, :] * pairs),
    ):
        np.testing.assert_allclose(
            run(layer, {**inputs, **masks}),
            reference(weights, **inputs, norm_first=False, own_mask=own),
            1e-4,
            3e-5,
        )


@pytest.mark.parametrize("norm_first", [False, True])
def test_padding_of_the_source_never_reaches_the_target(norm_first):
    layer, inputs = TransformerDecoderLayer(2, 7, norm_first=norm_first, seed=1), _inputs()
    randomize(layer, inputs)
    expected = run(layer, inputs)
    for other in with_other_padding(inputs, "encoded_mask", ["encoded"]):
        np.testing.assert_allclose(run(layer, other), expected, 1e-4, 1e-5)


def test_changing_a_token_changes_no_earlier_output():
    layer, inputs = TransformerDecoderLayer(2, 7, seed=1), _inputs()
    before = run(layer, inputs)
    inputs["inputs"][:, 2] += 1
    after = run(layer, inputs)
    np.testing.assert_array_equal(before[:, :2], after[:, :2])
    assert np.abs(before[:, 2:] - after[:, 2:]).min() > 0


@pytest.mark.parametrize(
    "norm_first, rows",
    quick([(False, 1), (False, 3), (True, 1), (True, 3)], (False, 3), (True, 1)),
)
def test_decoding_with_cache_and_memory_equals_one_full_pass(norm_first, rows):
    layer = TransformerDecoderLayer(2, 7, norm_first=norm_first, seed=1)
    inputs = {**_inputs(), "inputs": normal(2 * rows, 4, 6)}
    wide = {
        **inputs,
        **{name: np.repeat(inputs[name], rows, axis=0) for name in ("encoded", "encoded_mask")},
    }
    randomize(layer, wide)
    full = run(layer, wide)
    scores = run(layer, wide, {"return_attention_scores": True}, index=1)
    x, mask = (ops.convert_to_tensor(inputs[name]) for name in ("inputs", "encoded_mask"))
    memory = layer.project_memory(ops.convert_to_tensor(inputs["encoded"]))
    step = compiled(
        lambda part, own, cache, index: layer(
            part,
            attention_mask=own,
            encoded_mask=mask,
            cache=cache,
            cache_index=index,
            memory=memory,
            return_attention_scores=True,
        )
    )
    # Targets of one source side by side, each of which sees its own positions only.
    cache, parts = layer.make_cache(2, 4 * rows), ops.reshape(x, (2, rows, 4, 6))
    own = ops.convert_to_tensor(np.tile(np.eye(rows, dtype=bool), (2, 1, 4)))
    for i in range(4):
        index = ops.convert_to_tensor(i * rows, dtype="int32")
        part, weights, cache = step(parts[:, :, i], own, cache, index)
        part, weights = ops.convert_to_numpy(part), ops.convert_to_numpy(weights)
        np.testing.assert_allclose(part.reshape(-1, 6), full[:, i], 1e-4, 1e-5)
        np.testing.assert_allclose(
            weights.swapaxes(1, 2).reshape(-1, 2, 5), scores[:, :, i], 1e-4, 1e-6
        )


def test_a_source_of_padding_alone_stays_finite_and_so_do_its_gradients():
    layer = TransformerDecoderLayer(2, 7, seed=1)
    inputs = {**_inputs(), "encoded_mask": np.array([[0] * 5, [1] * 5])}
    randomize(layer, inputs)
    assert np.isfinite(run(layer, inputs)).all()
    by_path, by_input = layer_gradients(layer, inputs)
    for name, gradient in {**by_path, **by_input}.items():
        assert np.isfinite(gradient).all(), name


def test_dropout_repeats_by_seed_and_acts():
    tensors = {name: ops.convert_to_tensor(x) for name, x in _inputs().items()}
    runs = []
    for _ in range(2):
        layer = TransformerDecoderLayer(2, 7, dropout=0.5, seed=1)
        runs.append([ops.convert_to_numpy(layer(**tensors, training=t)) for t in (True, True)])
    np.testing.assert_array_equal(runs[0], runs[1])
    assert np.abs(runs[0][0] - runs[0][1]).max() > 1e-3


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: TransformerDecoderLayer(0, 7), "num_heads=0"),
        (lambda: TransformerDecoderLayer(2, 0), "intermediate_dim=0"),
        (lambda: TransformerDecoderLayer(2, 7, dropout=1.5), "dropout=1.5"),
        (lambda: TransformerDecoderLayer(2, 7).build((None, None, 5)), "num_heads=2"),
        (lambda: TransformerDecoderLayer(2, 7)(normal(1, 2, 6)), "Received: neither"),
    ],
)
def test_what_cannot_be_right_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
