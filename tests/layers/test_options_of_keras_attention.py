"""What `keras.layers.MultiHeadAttention` has: axes of attention, regularizers and constraints."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import MultiHeadAttention, RotaryEmbedding
from keras_attn.models import BertEncoder
from tests.support.layer_checks import compiled

RANDOM = np.random.default_rng(0)


def values(*shape):
    return RANDOM.normal(size=shape).astype("float32")


def pair(query, value, **options):
    """A layer of Keras and ours, with the same weights."""
    theirs = keras.layers.MultiHeadAttention(2, 3, **options)
    ours = MultiHeadAttention(2, 3, fused=None, **options)
    for layer in (theirs, ours):
        layer(query, value)
    names = [
        f"{part}_{kind}"
        for part in ("query", "key", "value", "output")
        for kind in ("kernel", "bias")
    ]
    flat = dict(zip(names, theirs.get_weights(), strict=True))
    for weight in ours.weights:
        weight.assign(flat[weight.name].reshape(weight.shape))
    return theirs, ours


@pytest.mark.parametrize(
    "axes, shape, other",
    [
        (None, (2, 3, 4, 5), (2, 3, 4, 5)),
        (None, (2, 3, 4, 5), (2, 6, 2, 5)),
        ((1, 2), (2, 3, 4, 5), (2, 2, 4, 5)),
        (2, (2, 3, 4, 5), (2, 3, 6, 5)),
        ((1,), (2, 3, 4, 5), (2, 7, 4, 5)),
        ((1, 3), (2, 2, 3, 4, 5), (2, 2, 3, 6, 5)),
        ((3, 1), (2, 2, 3, 4, 5), (2, 2, 3, 6, 5)),
        ((2, 1), (2, 3, 4, 5), (2, 6, 2, 5)),
        ((2, 3, 1), (2, 2, 3, 4, 5), (2, 2, 1, 6, 5)),
        ((1,), (2, 3, 5), (2, 4, 5)),
    ],
)
def test_axes_of_attention_are_those_of_keras(axes, shape, other):
    query, value = values(*shape), values(*other)
    theirs, ours = pair(query, value, attention_axes=axes)
    inner = theirs(query, value, return_attention_scores=True)[1].shape
    number = len(shape) - 2 if axes is None else len(np.atleast_1d(axes))
    mask = RANDOM.random((2, *inner[-2 * number :])) > 0.3
    mask[..., 0] = True  # a query without a key is where the two differ
    for given in (None, mask):
        expected = theirs(query, value, attention_mask=given, return_attention_scores=True)
        found = ours(query, value, attention_mask=given, return_attention_scores=True)
        for x, y in zip(found, expected, strict=True):
            assert x.shape == y.shape
            np.testing.assert_allclose(ops.convert_to_numpy(x), ops.convert_to_numpy(y), atol=1e-5)


@pytest.mark.parametrize("fused", ["qkv", "kv", None])
def test_rows_of_a_grid_are_as_sequences_alone(fused):
    grid = values(2, 3, 4, 6)
    mask = np.arange(4) < np.array([[[4], [2], [0]], [[1], [4], [3]]])
    layer = MultiHeadAttention(
        2, 4, fused=fused, attention_axes=-2, position=RotaryEmbedding(), seed=0
    )
    found = ops.convert_to_numpy(
        layer(grid, grid, query_mask=mask, value_mask=mask, use_causal_mask=True)
    )
    alone = MultiHeadAttention(2, 4, fused=fused, position=RotaryEmbedding(), seed=0)
    for row in range(3):
        expected = alone(
            grid[:, row],
            grid[:, row],
            query_mask=mask[:, row],
            value_mask=mask[:, row],
            use_causal_mask=True,
        )
        np.testing.assert_allclose(found[:, row], ops.convert_to_numpy(expected), atol=1e-5)


def test_sizes_that_are_unknown_and_compiled_and_saved(tmp_path):
    inputs = keras.Input((None, None, 6))
    layer = MultiHeadAttention(2, 3, attention_axes=(1, 2), seed=0)
    model = keras.Model(inputs, layer(inputs, inputs))
    x = values(2, 3, 4, 6)
    expected = ops.convert_to_numpy(layer(x, x))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.output_shape == (None, None, None, 6)
    for call in (again, compiled(lambda x: layer(x, x))):
        np.testing.assert_allclose(ops.convert_to_numpy(call(x)), expected, atol=1e-5)
    np.testing.assert_allclose(
        again.predict(x[:, :2], verbose=0),
        ops.convert_to_numpy(layer(x[:, :2], x[:, :2])),
        atol=1e-5,
    )


@pytest.mark.parametrize(
    "shape, other, options, message",
    [
        ((2, 3, 4, 5), (2, 9, 4, 5), {"attention_axes": 2}, "must have equal sizes in all axes "),
        ((2, 3, 4, 5), (2, 3, 4, 5), {"attention_axes": 3}, r"must be among \(1, 2\)"),
        ((2, 3, 4, 5), (2, 3, 4, 5), {"attention_axes": 0}, r"must be among \(1, 2\)"),
        ((2, 3, 4, 5), (2, 3, 5), {}, r"query must be of shape \(B, T, Q\)"),
    ],
)
def test_axes_that_cannot_be(shape, other, options, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(2, 3, **options)(values(*shape), values(*other))


def test_a_cache_takes_sequences_alone():
    layer = MultiHeadAttention(2, 3)
    x = values(2, 3, 4, 6)
    layer.build(x.shape, x.shape)
    with pytest.raises(ValueError, match=r"cache, memory and position_ids require inputs"):
        layer(x, x, cache=layer.make_cache(2, 5), cache_index=0)


@pytest.mark.parametrize("fused", ["qkv", "kv", None])
def test_penalties_are_those_of_keras(fused):
    x = values(2, 3, 6)
    options = {
        "kernel_regularizer": keras.regularizers.L1L2(0.1, 0.2),
        "bias_regularizer": keras.regularizers.L2(0.3),
        "bias_initializer": "ones",
    }
    theirs, plain = pair(x, x, **options)
    ours = MultiHeadAttention(2, 3, fused=fused, **options)
    ours(x, x)
    joined = {"qkv": ("query", "key", "value"), "kv": ("key", "value"), None: ()}[fused]
    own = {w.name: ops.convert_to_numpy(w) for w in plain.weights}
    for kind in ("kernel", "bias"):
        if joined:
            own[f"{'_'.join(joined)}_{kind}"] = np.concatenate(
                [own[f"{part}_{kind}"] for part in joined], axis=-1
            )
    for weight in ours.weights:
        weight.assign(own[weight.name])
    np.testing.assert_allclose(float(sum(ours.losses)), float(sum(theirs.losses)), 1e-5)
    config = MultiHeadAttention.from_config(ours.get_config()).get_config()
    assert config == ours.get_config()
    assert config["kernel_regularizer"]["class_name"] == "L1L2"


@pytest.mark.parametrize("fused", ["qkv", None])
def test_constraints_hold_after_a_step(fused):
    layer = MultiHeadAttention(
        2,
        3,
        fused=fused,
        kernel_constraint=keras.constraints.MaxNorm(0.5),
        bias_constraint="non_neg",
    )
    inputs = keras.Input((4, 6))
    model = keras.Model(inputs, layer(inputs, inputs))
    model.compile(keras.optimizers.SGD(1.0), "mse")
    model.fit(values(8, 4, 6), values(8, 4, 6), verbose=0)
    for weight in layer.weights:
        weight = ops.convert_to_numpy(weight)
        if weight.ndim == 1:
            assert weight.min() >= 0
        else:
            assert np.linalg.norm(weight, axis=0).max() < 0.5 + 1e-5


def test_lora_and_quantization_say_that_they_are_not_supported():
    layer = MultiHeadAttention(2, 3)
    layer.build((None, None, 6), (None, None, 6))
    with pytest.raises(NotImplementedError, match="does not support LoRA.*keras.layers.Multi"):
        layer.enable_lora(4)
    with pytest.raises(NotImplementedError, match="does not support quantization"):
        layer.quantize("int8")


def test_a_model_is_quantized_but_for_its_attention_and_says_so():
    model = BertEncoder(12, 1, 8, 2, seed=0)
    ids = {"token_ids": np.array([[3, 4, 5]])}
    expected = ops.convert_to_numpy(model(ids)["sequence_output"])
    with pytest.warns(UserWarning, match="MultiHeadAttention does not support quantization"):
        model.quantize("int8")
    found = ops.convert_to_numpy(model(ids)["sequence_output"])
    assert 0 < np.abs(found - expected).max() < 0.1
