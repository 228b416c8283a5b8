"""Every layer with rows of padding alone, one row, one step and no step, in every precision."""

import functools
import inspect

import keras
import numpy as np
import pytest
from keras import ops
from layer_checks import layer_gradients
from numpy_attention import normal

from keras_attn import layers

EMPTY_THEN_REAL = np.array([[0, 0, 0], [1, 1, 0]])


def pair(mask):
    return {"query": normal(len(mask), 2, 4, seed=1), "value": normal(*mask.shape, 4),
            "value_mask": mask}


def scored(mask):
    return {"query": normal(len(mask), 2, 4, seed=1), "key": normal(*mask.shape, 4)}


def alone(first="inputs", name="mask"):
    """One input; its mask as the argument of that name, lengths, or not at all."""
    def inputs(mask):
        given = mask.sum(axis=1) if name == "lengths" else mask
        return {first: normal(*mask.shape, 4), **({name: given} if name else {})}

    return inputs


def decoded(mask):
    return {"target_ids": np.tile([[1, 5]], (len(mask), 1)), "memory": normal(*mask.shape, 4),
            "memory_mask": mask}


def texts(mask):
    return {"first": normal(*mask.shape, 4), "second": normal(len(mask), 2, 4, seed=1),
            "first_mask": mask}


def grid(mask):
    tall = np.repeat(mask[:, :, None], 2, axis=2)
    return {"query": normal(*tall.shape, 4), "query_mask": tall}


def document(mask):
    return {"inputs": grid(mask)["query"], "mask": grid(mask)["query_mask"]}


def copied(mask):
    return {"vocabulary_probabilities": np.full((len(mask), 2, 4), 0.25, "float32"),
            "attention": np.repeat(mask[:, None], 2, axis=1) / np.float32(2),
            "source_ids": np.tile(np.arange(mask.shape[1]), (len(mask), 1)),
            "generation_probability": np.full((len(mask), 2, 1), 0.5, "float32")}


def source_and_target(mask):
    return {"source": normal(*mask.shape, 4), "target": normal(len(mask), 2, 4, seed=1),
            "source_mask": mask}


def encoded(mask):
    return {"inputs": normal(len(mask), 2, 4, seed=1), "encoded": normal(*mask.shape, 4),
            "encoded_mask": mask}


def streams(mask):
    places, seen = np.tile(np.arange(mask.shape[1])[:2], (len(mask), 1)), mask[:, None]
    return {"content": normal(*mask.shape, 4), "query": normal(*places.shape, 4, seed=1),
            "query_positions": places, "segment_ids": np.zeros_like(mask),
            "content_mask": seen, "query_mask": seen}


def decoder(cell):
    return layers.RecurrentDecoder(cell, 7, 3, teacher_forcing_ratio=0.5, seed=1)


def luong_cell():
    return layers.AttentionCell(GRU(4), layers.LuongAttention(4, seed=1))


# Keras's own first weights of it are orthogonal, which cannot be drawn in bfloat16.
GRU = functools.partial(keras.layers.GRUCell, recurrent_initializer="glorot_uniform")
SELF = alone("query", "query_mask")
# Those that give 0 for a row of padding alone, where biases are 0 as they are at first.
ZERO = {
    "ABCNN1Attention": (lambda: layers.ABCNN1Attention(3, seed=1), texts),
    "ABCNN2Pooling": (lambda: layers.ABCNN2Pooling(1), texts),
    "ABCNN2Pooling normalized": (lambda: layers.ABCNN2Pooling(1, normalize=True), texts),
    "Attention": (layers.Attention, pair),
    "AttentionPooling": (lambda: layers.AttentionPooling(3, seed=1), alone()),
    "AttentionPooling lengths": (lambda: layers.AttentionPooling(3, seed=1), alone(name="lengths")),
    "AttentionalInteraction": (lambda: layers.AttentionalInteraction(3, seed=1), alone()),
    "AttentiveConvPooling": (lambda: layers.AttentiveConvPooling(3, 3, 2, seed=1), alone()),
    "ExpandedWindowAttention": (
        lambda: layers.ExpandedWindowAttention(2, 2, 1, 1, global_tokens=1, seed=1), SELF),
    "ExpandedWindowAttention random": (
        lambda: layers.ExpandedWindowAttention(2, 2, 2, random_blocks=1, seed=1), SELF),
    **{f"HardAttention {estimator}": (lambda e=estimator: layers.HardAttention(e, seed=1), pair)
       for estimator in ("straight_through", "gumbel", "reinforce")},
    "HierarchicalAttention": (lambda: layers.HierarchicalAttention(2, 2, 3, seed=1), document),
    **{f"LocalAttention {kind}": (lambda k=kind: layers.LocalAttention(1, k, seed=1), pair)
       for kind in ("monotonic", "predictive")},
    **{f"MixedAttention {mix}": (lambda m=mix: layers.MixedAttention(2, 2, 1, mix=m, seed=1), SELF)
       for mix in ("gate", "heads", "cascade")},
    "MultiHeadAttention": (lambda: layers.MultiHeadAttention(2, 2, seed=1), pair),
    **{f"RelativeAttention {kind}": (
        lambda k=kind: layers.RelativeAttention(2, 2, k, seed=1), SELF) for kind in ("xl", "shaw")},
    **{f"SequenceToVector {reduce}": (lambda r=reduce: layers.SequenceToVector(r, seed=1), alone())
       for reduce in ("last", "mean", "max", "attention")},
    "SequenceToVector lengths": (lambda: layers.SequenceToVector("mean"), alone(name="lengths")),
    "TwoStreamAttention": (lambda: layers.TwoStreamAttention(2, 2, seed=1), streams),
    "WindowAttention": (lambda: layers.WindowAttention(2, 2, 1, seed=1), SELF),
    "WindowAttention causal": (lambda: layers.WindowAttention(2, 2, 1, causal=True, seed=1), SELF),
    "WindowAttention grid": (lambda: layers.WindowAttention(2, 2, (1, 1), seed=1), grid),
}
CASES = {
    **ZERO,
    "AdditiveScore": (lambda: layers.AdditiveScore(seed=1), scored),
    "AlibiBias": (lambda: layers.AlibiBias(4), alone("query", None)),
    "AttentionCell": (lambda: decoder(luong_cell()), decoded),
    "BahdanauDecoderCell": (lambda: decoder(layers.BahdanauDecoderCell(4, seed=1)), decoded),
    "BilinearScore": (lambda: layers.BilinearScore(seed=1), scored),
    "ConcatScore": (lambda: layers.ConcatScore(seed=1), scored),
    "CopyDistribution": (lambda: layers.CopyDistribution(1), copied),
    "CosineScore": (layers.CosineScore, scored),
    "DotScore": (layers.DotScore, scored),
    "IntraAttentionLSTMCell": (lambda: keras.layers.RNN(
        layers.IntraAttentionLSTMCell(3, 2, seed=1), return_sequences=True), alone()),
    "LearnedPositionEmbedding": (
        lambda: layers.LearnedPositionEmbedding(3, seed=1), alone(name=None)),
    "LocationScore": (lambda: layers.LocationScore(3, seed=1), scored),
    "LuongAttention": (lambda: layers.LuongAttention(4, seed=1), pair),
    "PointerAttention": (lambda: layers.PointerAttention(seed=1), pair),
    "PositionwiseFeedForward": (
        lambda: layers.PositionwiseFeedForward(8, seed=1), alone(name=None)),
    "RecurrentDecoder": (lambda: decoder(layers.AttentionCell(GRU(4), None)), decoded),
    "RelativePositionBias": (lambda: layers.RelativePositionBias(4, seed=1), alone("query", None)),
    "RotaryEmbedding": (layers.RotaryEmbedding, alone(name=None)),
    **{f"SequenceToSequence {context}": (
        lambda c=context: layers.SequenceToSequence(GRU(3), GRU(3), c, seed=1), source_and_target)
       for context in ("states", "both")},
    "SinusoidalPositionEncoding": (layers.SinusoidalPositionEncoding, alone(name=None)),
    **{f"TransformerDecoderLayer {first}": (
        lambda f=first: layers.TransformerDecoderLayer(2, 8, norm_first=f, seed=1), encoded)
       for first in (False, True)},
    **{f"TransformerEncoderLayer {first}": (
        lambda f=first: layers.TransformerEncoderLayer(2, 8, norm_first=f, seed=1),
        alone(name="padding_mask")) for first in (False, True)},
    "VectorToSequence": (lambda: layers.VectorToSequence(GRU(3), 2),
                         lambda mask: {"inputs": normal(len(mask), 4)}),
}


# The number of features is fixed, two or more.
FEATURES = {"AttentionalInteraction"}
# The recurrent layer of Keras around it needs a step.
RECURRENT = {"IntraAttentionLSTMCell"}


HALF = ["mixed_float16", "mixed_bfloat16"] if keras.backend.backend() == "tensorflow" else []


# The others compile each operation for each shape, which takes minutes.
@pytest.fixture(params=["float32", *HALF])
def policy(request):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy(before)


@pytest.fixture(params=["float16", "bfloat16", "float64"])
def floatx(request):
    before = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx(request.param)
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_floatx(before[0])
    keras.config.set_dtype_policy(before[1])


def outputs_of(layer, inputs, **arguments):
    """All outputs as float32 arrays, which are finite."""
    first, *rest = (ops.convert_to_tensor(x) for x in inputs.values())
    outputs = layer(first, **dict(zip(list(inputs)[1:], rest, strict=True)), **arguments)
    found = [ops.convert_to_numpy(ops.cast(x, "float32")) for x in keras.tree.flatten(outputs)]
    assert all(np.isfinite(x).all() for x in found)
    return found


def test_no_layer_is_left_out():
    assert {name.split()[0] for name in CASES} == set(layers.__all__)


@pytest.mark.parametrize("name", CASES)
def test_rows_of_padding_rows_alone_and_single_steps_are_finite(name, policy):
    make, inputs_of = CASES[name]
    layer, inputs = make(), inputs_of(EMPTY_THEN_REAL)
    tolerance = 1e-5 if policy == "float32" else 0.02
    found = outputs_of(layer, inputs)
    single = outputs_of(layer, {n: x[1:] for n, x in inputs.items()})
    for one, both in zip(single, found, strict=True):
        if len(both) == 2:  # rows; a bias of positions has heads there
            np.testing.assert_allclose(one[0], both[1], tolerance, tolerance)
    if name in ZERO:
        assert not found[0][0].any() and found[0][1].any()
    if name != "AlibiBias":  # which has none
        by_path, by_input = layer_gradients(layer, inputs)
        for path, gradient in {**by_path, **by_input}.items():
            assert np.isfinite(np.asarray(gradient, "float32")).all(), path
    if name not in FEATURES:
        short = outputs_of(make(), inputs_of(np.ones((1, 1), int)))
        assert [x.ndim for x in short] == [x.ndim for x in found]


@pytest.mark.skipif(not HALF, reason="shapes and dtypes are compiled one by one")
@pytest.mark.parametrize("name", CASES)
def test_weights_and_constants_may_be_of_any_precision(name, floatx):
    make, inputs_of = CASES[name]
    layer, inputs = make(), inputs_of(EMPTY_THEN_REAL)
    found = outputs_of(layer, inputs)
    if "training" in inspect.signature(layer.call).parameters:
        learning = outputs_of(layer, inputs, training=True)
        assert [x.shape for x in learning] == [x.shape for x in found]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_in_half_precision_begin_as_those_of_float32_rounded(dtype):
    pair = [layers.BahdanauDecoderCell(4, seed=3, dtype=dtype) for dtype in (dtype, "float32")]
    for cell in pair:
        cell.build((None, 5), (None, None, 6))
    for half, full in zip(*(cell.weights for cell in pair), strict=True):
        assert half.dtype == dtype
        np.testing.assert_array_equal(
            ops.convert_to_numpy(ops.cast(half, "float32")),
            ops.convert_to_numpy(ops.cast(ops.cast(full, dtype), "float32")), half.path)


@pytest.mark.parametrize("name", [name for name in CASES if name not in RECURRENT | FEATURES])
def test_no_step_at_all_gives_nothing_or_zero(name):
    make, inputs_of = CASES[name]
    found = outputs_of(make(), inputs_of(np.ones((2, 0), int)))
    some = outputs_of(make(), inputs_of(np.ones((2, 3), int)))
    assert [x.ndim for x in found] == [x.ndim for x in some]
    assert name not in ZERO or not found[0].any()


@pytest.mark.parametrize("name", ["AttentionCell", "BahdanauDecoderCell", "RecurrentDecoder",
                                  "SequenceToSequence states", "SequenceToSequence both"])
@pytest.mark.parametrize("training", [False, True])
def test_a_target_of_no_step_gives_no_output(name, training):
    make, inputs_of = CASES[name]
    layer, inputs = make(), inputs_of(EMPTY_THEN_REAL)
    target = "target_ids" if "target_ids" in inputs else "target"
    wanted = outputs_of(layer, inputs, training=training)
    found = outputs_of(layer, {**inputs, target: inputs[target][:, :0]}, training=training)
    for none, some in zip(found, wanted, strict=True):
        assert none.shape == (2, 0, *some.shape[2:])


@pytest.mark.parametrize("shape", [(2, 3, 0, 4), (2, 0, 3, 4), (2, 0, 0, 4)])
def test_documents_without_sentences_or_words_give_zero(shape):
    layer = layers.HierarchicalAttention(2, 2, 3, seed=1)
    for mask in ({}, {"mask": np.ones(shape[:3], bool)}):
        found = outputs_of(layer, {"inputs": np.zeros(shape, "float32"), **mask},
                           return_attention_scores=True)
        assert [x.shape for x in found] == [(2, 4), shape[:3], shape[:2]]


def test_an_encoder_that_reads_nothing_leaves_its_first_state():
    layer = layers.SequenceToSequence(GRU(3), GRU(3), seed=1)
    source, target = normal(2, 3, 4), normal(2, 2, 4, seed=1)
    masked, = outputs_of(layer, {"source": source, "target": target,
                                 "source_mask": np.zeros((2, 3), bool)})
    none, = outputs_of(layer, {"source": source[:, :0], "target": target})
    np.testing.assert_allclose(none, masked, 1e-6, 1e-6)
