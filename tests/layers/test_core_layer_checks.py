"""Core Keras' own checks of a layer, and what layers report of symbolic calls."""

import inspect

import keras
import numpy as np
import pytest
from keras.src.testing import TestCase

from keras_attn import layers
from tests.support.layer_calls import CASES as CALLS
from tests.support.quick import one_of_each, quick

X = (2, 3, 4)
PAIR = {"query_shape": X, "value_shape": (2, 5, 4)}
SCORED = {"query_shape": X, "key_shape": (2, 5, 4)}
DECODED = {"target_ids_shape": (2, 3), "memory_shape": (2, 5, 4)}
SENTENCES = {"source_shape": X, "target_shape": (2, 5, 4)}
TEXTS = {"first_shape": X, "second_shape": (2, 5, 4)}
TWO_HEADS = {"num_heads": 2, "key_dim": 3}


def gru(units, dtype=None):
    return keras.layers.GRUCell(units, dtype=dtype)


def intra_attention(dtype=None):
    return keras.layers.RNN(layers.IntraAttentionLSTMCell(3, 4, dtype=dtype), dtype=dtype)


def vectors(dtype=None):
    return layers.VectorToSequence(gru(3, dtype), 3, dtype=dtype)


def sequences(context):
    return lambda dtype=None: layers.SequenceToSequence(
        gru(3, dtype), gru(3, dtype), context, dtype=dtype
    )


def decoder(make_cell):
    return lambda dtype=None: layers.RecurrentDecoder(make_cell(dtype), 7, 3, dtype=dtype)


def attention_cell(order):
    return lambda dtype: layers.AttentionCell(
        gru(4, dtype), layers.LuongAttention(4, dtype=dtype), order, dtype=dtype
    )


# The class or a function that makes the layer, its arguments, and the shapes of its inputs.
CASES = {
    "ABCNN1Attention": (layers.ABCNN1Attention, {"max_length": 5}, TEXTS),
    "ABCNN2Pooling": (layers.ABCNN2Pooling, {"width": 2}, TEXTS),
    "AdditiveScore": (layers.AdditiveScore, {"use_bias": True, "normalize": True}, SCORED),
    "AlibiBias": (layers.AlibiBias, {"num_heads": 2}, X),
    **{
        f"Attention {score}": (layers.Attention, {"score": score}, PAIR)
        for score in ("scaled_dot", "bilinear", "cosine", "concat", "additive")
    },
    **{
        f"AttentionCell {order}": (decoder(attention_cell(order)), {}, DECODED)
        for order in ("attend_last", "attend_first")
    },
    "AttentionPooling": (layers.AttentionPooling, {}, X),
    "AttentionalInteraction": (layers.AttentionalInteraction, {}, X),
    "AttentiveConvPooling": (
        layers.AttentiveConvPooling,
        {"filters": 3, "kernel_size": 2, "lstm_units": 3},
        X,
    ),
    "BahdanauDecoderCell": (
        decoder(lambda dtype: layers.BahdanauDecoderCell(4, dtype=dtype)),
        {},
        DECODED,
    ),
    "BilinearScore": (layers.BilinearScore, {}, SCORED),
    "CRF": (layers.CRF, {"allowed_start": [True, True, False, True]}, X),
    "ConcatScore": (layers.ConcatScore, {}, SCORED),
    "CopyDistribution": (
        layers.CopyDistribution,
        {"num_oov": 1},
        {
            "vocabulary_probabilities_shape": (2, 3, 6),
            "attention_shape": (2, 3, 5),
            "source_ids_shape": (2, 5),
            "generation_probability_shape": (2, 3, 1),
        },
    ),
    "CosineScore": (layers.CosineScore, {"learn_beta": True}, SCORED),
    "DotScore": (layers.DotScore, {}, SCORED),
    "ExpandedWindowAttention": (
        layers.ExpandedWindowAttention,
        {**TWO_HEADS, "window": 1, "global_tokens": 1},
        X,
    ),
    **{
        f"HardAttention {estimator}": (layers.HardAttention, {"estimator": estimator}, PAIR)
        for estimator in ("straight_through", "gumbel", "reinforce")
    },
    "HierarchicalAttention": (
        layers.HierarchicalAttention,
        {"word_units": 3, "sentence_units": 3, "attention_units": 3},
        (2, 3, 2, 4),
    ),
    "IntraAttentionLSTMCell": (intra_attention, {}, X),
    "LearnedPositionEmbedding": (layers.LearnedPositionEmbedding, {"max_length": 5}, X),
    **{
        f"LocalAttention {alignment}": (
            layers.LocalAttention,
            {"window": 1, "alignment": alignment},
            PAIR,
        )
        for alignment in ("monotonic", "predictive")
    },
    "LocationScore": (layers.LocationScore, {"max_length": 5}, SCORED),
    "LuongAttention": (layers.LuongAttention, {"units": 3}, PAIR),
    **{
        f"MixedAttention {mix}": (layers.MixedAttention, {**TWO_HEADS, "window": 1, "mix": mix}, X)
        for mix in ("gate", "heads", "cascade")
    },
    "MultiHeadAttention": (layers.MultiHeadAttention, TWO_HEADS, PAIR),
    "PointerAttention": (layers.PointerAttention, {}, PAIR),
    "PositionwiseFeedForward": (layers.PositionwiseFeedForward, {"intermediate_dim": 8}, X),
    "RecurrentDecoder": (
        decoder(lambda dtype: layers.AttentionCell(gru(4, dtype), None, dtype=dtype)),
        {},
        DECODED,
    ),
    **{
        f"RelativeAttention {style}": (layers.RelativeAttention, {**TWO_HEADS, "style": style}, X)
        for style in ("xl", "shaw")
    },
    "RelativePositionBias": (layers.RelativePositionBias, {"num_heads": 2}, X),
    "RotaryEmbedding": (layers.RotaryEmbedding, {}, X),
    **{
        f"SequenceToSequence {context}": (sequences(context), {}, SENTENCES)
        for context in ("states", "both")
    },
    **{
        f"SequenceToVector {reduce}": (layers.SequenceToVector, {"reduce": reduce}, X)
        for reduce in ("last", "mean", "max", "attention")
    },
    "SinusoidalPositionEncoding": (layers.SinusoidalPositionEncoding, {}, X),
    "TransformerDecoderLayer": (
        layers.TransformerDecoderLayer,
        {"num_heads": 2, "intermediate_dim": 8, "dropout": 0.1},
        {"inputs_shape": X, "encoded_shape": (2, 5, 4)},
    ),
    "TransformerEncoderLayer": (
        layers.TransformerEncoderLayer,
        {"num_heads": 2, "intermediate_dim": 8, "dropout": 0.1},
        X,
    ),
    "TwoStreamAttention": (layers.TwoStreamAttention, TWO_HEADS, X),
    "VectorToSequence": (vectors, {}, (2, 4)),
    "WindowAttention": (layers.WindowAttention, {**TWO_HEADS, "window": 1}, X),
    "WindowAttention grid": (layers.WindowAttention, {**TWO_HEADS, "window": (1, 1)}, (2, 3, 2, 4)),
}
INTEGERS = {"target_ids", "source_ids"}


def test_no_layer_is_left_out():
    assert {name.split()[0] for name in CASES} == set(layers.__all__)


# One of each kind of inputs and of parts; the tests of the others check their configs, files and
# symbolic calls.
@pytest.mark.parametrize(
    "name",
    quick(
        CASES, "ABCNN1Attention", "AdditiveScore", "AlibiBias", "Attention scaled_dot",
        "AttentionPooling", "AttentionalInteraction", "BahdanauDecoderCell", "CopyDistribution",
        "HardAttention gumbel", "IntraAttentionLSTMCell", "MixedAttention gate",
        "MultiHeadAttention", "PositionwiseFeedForward", "RelativeAttention xl",
        "SequenceToVector attention", "TransformerDecoderLayer", "TwoStreamAttention",
        "VectorToSequence", "WindowAttention grid",
    ),
)  # fmt: skip
def test_core_keras_accepts_the_layer(name):
    accept(name, run_training_check=False)


@pytest.mark.parametrize("name", CALLS)
def test_the_config_has_every_argument(name):
    """Configs of a layer and of its copy are equal also where both lack an argument."""
    kind = getattr(layers, name.split()[0])
    layer = CALLS[name][0]()
    layer = layer if isinstance(layer, kind) else layer.cell
    arguments = inspect.signature(kind).parameters.keys() - {"kwargs"}
    assert not arguments - layer.get_config().keys()


# Takes most of the time, because `fit` compiles each layer and its gradients with XLA. The test of
# each layer compares its values under XLA and its gradients with NumPy.
@pytest.mark.thorough
@pytest.mark.parametrize(  # its training step calls a layer with one argument
    "name", [name for name, (_, _, shapes) in CASES.items() if not isinstance(shapes, dict)]
)
def test_core_keras_trains_the_layer(name):
    accept(name, run_training_check=True)


def accept(name, **options):
    make, arguments, shapes = CASES[name]
    dtypes = (
        {key: "int32" if key.removesuffix("_shape") in INTEGERS else "float32" for key in shapes}
        if isinstance(shapes, dict)
        else None
    )
    TestCase().run_layer_test(make, arguments, shapes, dtypes, **options)


@pytest.fixture
def mixed_float16():
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    yield
    keras.config.set_dtype_policy(before)


@pytest.mark.parametrize("name", one_of_each(CALLS))
def test_symbolic_outputs_in_mixed_precision_are_those_of_a_call(name, mixed_float16):
    """Also in a model that is called again, which asks a layer for its `compute_output_spec`."""
    make, inputs_of = CALLS[name]
    layer, inputs = make(), inputs_of(np.array([[1, 1, 0], [1, 1, 1]]))
    parameters = inspect.signature(layer.call).parameters
    arguments = (
        {"return_attention_scores": True} if ("return_attention_scores" in parameters) else {}
    )
    wanted = [
        (tuple(x.shape), keras.backend.standardize_dtype(x.dtype))
        for x in keras.tree.flatten(_call(layer, inputs, arguments))
    ]
    symbols = {
        key: keras.Input(x.shape[1:], x.shape[0], dtype=x.dtype.name, name=key)
        for key, x in inputs.items()
    }
    general = {
        key: keras.Input(_unknown_length(name, key, x), dtype=x.dtype.name, name=key)
        for key, x in inputs.items()
    }
    model = keras.Model(general, _call(layer, general, arguments))
    for found in (model(symbols), _call(layer, symbols, arguments)):
        assert [(tuple(x.shape), x.dtype) for x in keras.tree.flatten(found)] == wanted


def _unknown_length(name, key, x):
    if key.endswith("_mask") or (name, key) == ("CopyDistribution", "attention"):
        return (None,) * (x.ndim - 1)
    fixed = name == "AttentionalInteraction" or x.ndim == 1 or x.ndim == 2 and x.dtype.kind == "f"
    return x.shape[1:] if fixed else (None, *x.shape[2:])


def _call(layer, inputs, arguments):
    first, *rest = inputs.values()
    return layer(first, **dict(zip(list(inputs)[1:], rest, strict=True)), **arguments)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_a_sequential_model_is_called_with_another_length(policy):
    layer = layers.TransformerEncoderLayer(2, 16, dtype=policy)
    model = keras.Sequential([keras.Input((None, 8)), layer])
    assert model(keras.Input((10, 8))).dtype == policy.removeprefix("mixed_")
