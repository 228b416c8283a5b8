"""Inputs of layers of another type: integers, None, and masks of floats."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn import layers
from tests.support.layer_calls import CASES
from tests.support.numpy_attention import normal


@pytest.mark.parametrize(
    "name",
    [
        "ABCNN1Attention",
        "Attention",
        "AttentionPooling",
        "CRF",
        "LearnedPositionEmbedding",
        "LuongAttention",
        "RelativeAttention xl",
        "RotaryEmbedding",
        "SequenceToVector mean",
        "TwoStreamAttention",
    ],
)
def test_integers_are_numbers_like_others(name):
    make, inputs = CASES[name]
    given = inputs(np.ones((2, 3), bool))
    whole = {
        key: np.round(3 * x).astype("int32") if x.dtype.kind == "f" else x
        for key, x in given.items()
    }
    floats = {key: np.float32(x) if given[key].dtype.kind == "f" else x for key, x in whole.items()}
    layer = make()
    expected = keras.tree.flatten(layer(**floats))
    for actual, wanted in zip(keras.tree.flatten(layer(**whole)), expected, strict=True):
        assert actual.dtype == wanted.dtype
        actual, wanted = ops.convert_to_numpy(actual), ops.convert_to_numpy(wanted)
        np.testing.assert_allclose(actual, wanted, atol=1e-6)


def test_integers_keep_their_implicit_mask():
    x = ops.convert_to_tensor(np.array([[[1, 2], [3, 4]]], "int32"))
    x._keras_mask = ops.convert_to_tensor([[True, False]])
    pooled = layers.SequenceToVector("mean")(x)
    np.testing.assert_allclose(ops.convert_to_numpy(pooled), [[1, 2]])


def test_an_input_of_none_is_named():
    with pytest.raises(ValueError, match="MultiHeadAttention: query is required. Received: None"):
        layers.MultiHeadAttention(2, 4)(None, normal(2, 3, 4))
    with pytest.raises(ValueError, match="AttentionalInteraction: inputs is required"):
        layers.AttentionalInteraction()(None)


@pytest.mark.parametrize("layer", [layers.WindowAttention(2, 4, 1), layers.MixedAttention(2, 4, 1)])
def test_a_mask_of_floats_is_named_as_its_argument(layer):
    x = normal(2, 3, 8)
    with pytest.raises(ValueError, match="^value_mask must be boolean"):
        layer(x, value_mask=np.ones((2, 3), "float32"))
