"""Errors of layers for tensors and numbers that they do not take say what is wrong."""

import inspect

import keras
import numpy as np
import pytest

from keras_attn import layers, models, ops

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
    "CRF": (layers.CRF, "mask"),
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
GIVEN = {
    "num_heads": 2,
    "key_dim": 4,
    "intermediate_dim": 8,
    "units": 4,
    "window": 1,
    "vocabulary_size": 9,
    "embedding_dim": 4,
    "max_length": 5,
    "num_layers": 1,
    "hidden_dim": 8,
    "num_classes": 2,
    "filters": 3,
    "kernel_size": 2,
    "lstm_units": 3,
    "word_units": 3,
    "sentence_units": 3,
    "attention_units": 3,
    "width": 2,
    "length": 2,
    "num_features": 4,
    "num_fields": 2,
    "element_dim": 1,
    "cell": lambda: keras.layers.LSTMCell(4),
    "attention": lambda: layers.Attention("dot"),
    "encoder": lambda: keras.layers.LSTMCell(4),
    "decoder": lambda: keras.layers.LSTMCell(4),
}
BACKBONES = {
    "ABCN": lambda: models.ABCNNEncoder(9, 8, variant=0),
    "Bert": lambda: models.BertEncoder(9, 1, 8, 2),
    "Mode": lambda: models.ModernBertEncoder(9, 1, 8, 2),
    "Dist": lambda: models.BertEncoder(9, 1, 8, 2),
    "Elec": lambda: models.ElectraEncoder(9, 1, 8, 2),
    "Robe": lambda: models.BertEncoder(9, 1, 8, 2),
    "Toke": lambda: models.BertEncoder(9, 1, 8, 2),
    "XLNe": lambda: models.XLNet(9, 1, 8, 2),
    "Recu": lambda: models.RecurrentEncoder(9, 1, 8, bidirectional=False),
    "GPT2": lambda: models.GPT2(9, 1, 8, 2),
}
# What some arguments go with.
OPTIONS = {
    "sigma": {"alignment": "predictive"},
    "window": {"attention": "local_monotonic"},
    "units": {"score": "concat", "reduce": "attention"},
    "temperature": {"estimator": "gumbel"},
    "sample_probability": {"estimator": "reinforce"},
    "global_heads": {"mix": "heads"},
    "baseline_momentum": {"estimator": "reinforce"},
    "entropy_weight": {"estimator": "reinforce"},
    "max_distance": {"style": "shaw"},
}
# Those of which None is the default, or a layer another choice.
SIZES = {
    "value_dim",
    "output_dim",
    "attention_units",
    "readout_units",
    "target_vocabulary_size",
    "key_dim",
    "units",
    "intermediate_dim",
    "max_distance",
    "reuse_length",
    "global_heads",
}
NUMBERS = {"attention_dropout", "generator_fraction", "sigma", "scale"}


def _arguments(numbers):
    """Each class with each of its arguments that takes an integer, or that takes any number, and
    arguments to create it with."""
    for kind in (getattr(module, name) for module in (layers, models) for name in module.__all__):
        parameters = {}
        for parent in reversed(kind.__mro__):
            if parent.__module__.startswith("keras_attn"):
                parameters |= inspect.signature(parent.__init__).parameters
        required = [
            name
            for name, p in parameters.items()
            if p.default is p.empty and name not in ("self", "kwargs", "args")
        ]
        given = {**GIVEN, "backbone": BACKBONES.get(kind.__name__[:4])}
        given = {name: given[name]() if callable(given[name]) else given[name] for name in required}
        for name, parameter in parameters.items():
            value = given.get(name, parameter.default)
            known = NUMBERS if numbers else SIZES
            if type(value) is (float if numbers else int) or value is None and name in known:
                own = {n: x for n, x in OPTIONS.get(name, {}).items() if n in parameters}
                yield kind, name, {**given, **own}


@pytest.mark.parametrize("value", [2.0, 2.5, "2", True, -1, [2]])
def test_an_integer_argument_that_is_no_integer_of_its_range(value):
    checked = set()
    for kind, name, given in _arguments(numbers=False):
        expected = "integer|window must be|at least" if value == -1 else "must be an? .*integer"
        with pytest.raises(ValueError, match=expected) as error:
            kind(**{**given, name: value})
        assert f"{name}={value!r}" in str(error.value)
        checked.add((kind.__name__, name))
    assert {
        ("CopyDistribution", "num_oov"),
        ("PointerGenerator", "unknown_id"),
        ("XLNet", "memory_length"),
        ("ABCNN", "variant"),
        ("MixedAttention", "global_heads"),
        ("ExpandedWindowAttention", "dilation"),
    } < checked and len(checked) > 110


@pytest.mark.parametrize("value", ["0.1", True, float("nan"), [0.1]])
def test_a_float_argument_that_is_no_number(value):
    checked = set()
    for kind, name, given in _arguments(numbers=True):
        with pytest.raises(ValueError, match=f"{name} must be a .*number") as error:
            kind(**{**given, name: value})
        assert f"{name}={value!r}" in str(error.value)
        checked.add((kind.__name__, name))
    assert {
        ("BertEncoder", "layer_norm_epsilon"),
        ("HardAttention", "temperature"),
        ("RotaryEmbedding", "max_wavelength"),
        ("CosineScore", "epsilon"),
        ("GPT2", "initializer_range"),
        ("BertClassifier", "label_deviation"),
        ("LuongSeq2Seq", "teacher_forcing_ratio"),
    } < checked and len(checked) > 60


@pytest.mark.parametrize("value", [1, -0.1, None])
def test_a_dropout_rate_outside_of_its_range(value):
    for kind, name, given in _arguments(numbers=True):
        if name == "dropout":
            with pytest.raises(ValueError, match=r"dropout must be a number in \[0, 1\)"):
                kind(**{**given, name: value})


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: layers.MultiHeadAttention(2, 4, attention_axes=(1, 2.0)), r"axes=\(1, 2.0\)"),
        (lambda: layers.MultiHeadAttention(2, 4, attention_axes="1"), "attention_axes='1'"),
        (lambda: layers.MultiHeadAttention(2, 4, initial_shifts=[1, 0.5]), r"shifts=\[1, 0.5\]"),
        (lambda: layers.MultiHeadAttention(2, 4, initial_shifts=2), "one integer per head"),
        (lambda: layers.WindowAttention(2, 4, (1, 1.5)), r"window=\(1, 1.5\)"),
        (lambda: layers.LocalAttention(float("nan")), "window=nan"),
        (lambda: layers.Attention("dot", seed=1.5), "seed must be an integer or None"),
        (lambda: layers.Attention("dot", seed="a"), "seed must be an integer or None"),
        (lambda: layers.MultiHeadAttention(2, 4).make_cache(1.5, 3), "batch_size=1.5"),
        (lambda: ops.causal_mask(2, 3.5), "key_length=3.5"),
        (lambda: ops.causal_mask(-1, 3), "query_length=-1"),
        (lambda: ops.padding_mask([1, 2], "3"), "max_length='3'"),
        (lambda: ops.sinusoidal_positions([0, 1], 2.5), "depth=2.5"),
        (lambda: ops.sinusoidal_positions([0, 1], 4, max_wavelength="9"), "max_wavelength='9'"),
        (lambda: ops.match_matrix(X, X, epsilon="1"), "epsilon='1'"),
        (
            lambda: ops.sparse_cross_entropy([0], X[0, :1], label_smoothing="0.1"),
            "label_smoothing='0",
        ),
        (lambda: ops.linear_cross_entropy([0], X[0, :1], X[0], most=0.5), "most=0.5"),
        (lambda: ops.scaled_dot_product_attention(X, X, X, scale="1"), "scale='1'"),
        (lambda: ops.scaled_dot_product_attention(X, X, X, dropout=1.0), "dropout=1.0"),
    ],
)
def test_other_numbers_that_are_not_accepted(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_integers_of_numpy_are_taken():
    for layer in (
        layers.MultiHeadAttention(np.int64(2), np.int32(4)),
        layers.TransformerEncoderLayer(np.int64(2), np.int64(8)),
    ):
        assert layer(*[X] * len(inspect.signature(layer.build).parameters)).shape == X.shape
