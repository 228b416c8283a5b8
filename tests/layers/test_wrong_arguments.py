"""Errors of layers for tensors and numbers that they do not take say what is wrong."""

import inspect

import keras
import numpy as np
import pytest

from keras_attn import layers, models

X = np.zeros((2, 3, 4), "float32")
TWO_INPUTS = {
    "MultiHeadAttention": lambda: layers.MultiHeadAttention(2, 4),
    "Attention": lambda: layers.Attention("dot"),
    "LuongAttention": lambda: layers.LuongAttention(4),
    "LocalAttention": lambda: layers.LocalAttention(2, "predictive"),
    "HardAttention": lambda: layers.HardAttention("gumbel", score="dot"),
    "PointerAttention": lambda: layers.PointerAttention(3),
}
ONE_INPUT = {
    "RelativeAttention": (lambda: layers.RelativeAttention(2, 4), "value_mask"),
    "WindowAttention": (lambda: layers.WindowAttention(2, 4, 1), "value_mask"),
    "ExpandedWindowAttention": (lambda: layers.ExpandedWindowAttention(2, 4, 1), "value_mask"),
    "TransformerEncoderLayer": (lambda: layers.TransformerEncoderLayer(2, 8), "padding_mask"),
    "AttentionPooling": (lambda: layers.AttentionPooling(3), "mask"),
    "SequenceToVector": (lambda: layers.SequenceToVector("mean"), "mask"),
    "PositionwiseFeedForward": (lambda: layers.PositionwiseFeedForward(5), None),
}


@pytest.mark.parametrize("shape", [(2,), (2, 3, 3), (2, 5), (3, 3)])
@pytest.mark.parametrize("mask", ["query_mask", "value_mask"])
@pytest.mark.parametrize("name", TWO_INPUTS)
def test_a_mask_of_another_shape_than_its_input(name, mask, shape):
    expected = rf"{name}: {mask} must be of shape \(2, 3\). Received: {mask} of shape"
    with pytest.raises(ValueError, match=expected):
        TWO_INPUTS[name]()(X, X, **{mask: np.ones(shape, "bool")})


@pytest.mark.parametrize("name", [name for name, (_, mask) in ONE_INPUT.items() if mask])
def test_a_mask_without_a_row_axis(name):
    make, mask = ONE_INPUT[name]
    with pytest.raises(ValueError, match=rf"{name}: {mask} must be of shape \(2, 3\)"):
        make()(X, **{mask: np.ones((3,), "bool")})


@pytest.mark.parametrize("shape", [(2,), (3, 4), (2, 2, 3), (1, 1, 1, 3, 3)])
@pytest.mark.parametrize("name", TWO_INPUTS)
def test_an_attention_mask_that_does_not_broadcast(name, shape):
    with pytest.raises(ValueError, match=f"{name}: attention_mask must broadcast to"):
        TWO_INPUTS[name]()(X, X, attention_mask=np.ones(shape, "bool"))


def test_masks_that_broadcast_are_taken():
    layer = layers.MultiHeadAttention(2, 4)
    for shape in ((3,), (3, 3), (1, 3, 3), (2, 1, 3), (2, 2, 3, 3), (1, 1, 1, 3)):
        layer(X, X, attention_mask=np.ones(shape, "bool"))
    layer(X, X, value_mask=np.ones((1, 3), "bool"))
    with pytest.raises(TypeError, match="unexpected keyword argument 'padding_mask'"):
        layer(X, X, padding_mask=np.ones((2, 3), "bool"))


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="of TensorFlow alone")
def test_ragged_and_sparse_tensors():
    import tensorflow as tf

    ragged = tf.ragged.constant([[[1.0] * 4], [[1.0] * 4] * 2], ragged_rank=1)
    for name, make in TWO_INPUTS.items():
        with pytest.raises(ValueError, match=f"{name}: query must be a dense tensor. Convert it"):
            make()(ragged, ragged)
    for name, (make, _) in ONE_INPUT.items():
        with pytest.raises(ValueError, match=f"{name}: .* dense tensor.* type RaggedTensor"):
            make()(ragged)
    with pytest.raises(ValueError, match="value must be a dense .*sparse.to_dense"):
        layers.MultiHeadAttention(2, 4)(X, tf.sparse.from_dense(X))
    with pytest.raises(ValueError, match="BertEncoder: token_ids must be a dense tensor"):
        models.BertEncoder(9, 1, 8, 2)({"token_ids": tf.ragged.constant([[1], [2, 3]])})


# What the other arguments of a class are, where it has none by default.
GIVEN = {"num_heads": 2, "key_dim": 4, "intermediate_dim": 8, "units": 4, "window": 1,
         "vocabulary_size": 9, "embedding_dim": 4, "max_length": 5, "num_layers": 1,
         "hidden_dim": 8, "num_classes": 2, "filters": 3, "kernel_size": 2, "lstm_units": 3,
         "word_units": 3, "sentence_units": 3, "attention_units": 3, "width": 2, "length": 2,
         "num_features": 4, "num_fields": 2, "element_dim": 1, "estimator": "gumbel",
         "alignment": "predictive"}
SIZED = {"score": "concat", "reduce": "attention"}  # what goes with units
SIZES = GIVEN.keys() - {"window", "estimator", "alignment"} | {
    "value_dim", "output_dim", "readout_units", "target_vocabulary_size", "num_blocks"}


def _classes():
    for module in (layers, models):
        for name in module.__all__:
            kind = getattr(module, name)
            parameters = inspect.signature(kind.__init__).parameters
            required = [n for n, p in parameters.items() if p.default is p.empty
                        and n not in ("self", "kwargs", "args")]
            if set(required) <= GIVEN.keys():
                yield kind, {n: GIVEN[n] for n in required}, parameters


@pytest.mark.parametrize("value", [2.0, 2.5, "2", True, -1, 0])
def test_a_size_that_is_no_positive_integer(value):
    checked = 0
    for kind, given, parameters in _classes():
        given |= {n: x for n, x in SIZED.items() if n in parameters}
        for size in SIZES & parameters.keys():
            with pytest.raises(ValueError, match=f"{size} must be (an integer|positive)"):
                kind(**{**given, size: value})
            checked += 1
    assert checked > 60


@pytest.mark.parametrize("value", ["0.1", None, 1, -0.1, float("nan")])
def test_a_dropout_rate_that_is_no_number_below_1(value):
    for kind, given, parameters in _classes():
        if "dropout" in parameters and parameters["dropout"].default is not None:
            with pytest.raises(ValueError, match=r"dropout must be in \[0, 1\)"):
                kind(**{**given, "dropout": value})


def test_integers_of_numpy_are_taken():
    for layer in (layers.MultiHeadAttention(np.int64(2), np.int32(4)),
                  layers.TransformerEncoderLayer(np.int64(2), np.int64(8))):
        assert layer(*[X] * len(inspect.signature(layer.build).parameters)).shape == X.shape
