"""Every layer with rows of padding alone, one row, one step and no step, in every precision."""

import inspect

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn import layers
from tests.support.layer_calls import CASES, FEATURES, GRU, RECURRENT, ZERO
from tests.support.layer_checks import layer_gradients
from tests.support.numpy_attention import normal
from tests.support.quick import one_of_each, quick

EMPTY_THEN_REAL = np.array([[0, 0, 0], [1, 1, 0]])


HALF = keras.backend.backend() == "tensorflow"
# float16 first, whose range is the smallest. The other backends compile each operation for each
# shape, which takes minutes.
POLICIES = ["mixed_float16", "float32", "mixed_bfloat16"] if HALF else ["float32"]


@pytest.fixture(params=quick(POLICIES, POLICIES[0]))
def policy(request):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy(before)


@pytest.fixture(params=quick(["float16", "bfloat16", "float64"], "bfloat16"))
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
@pytest.mark.parametrize("name", one_of_each(CASES))
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
            ops.convert_to_numpy(ops.cast(ops.cast(full, dtype), "float32")),
            half.path,
        )


@pytest.mark.parametrize("name", [name for name in CASES if name not in RECURRENT | FEATURES])
def test_no_step_at_all_gives_nothing_or_zero(name):
    make, inputs_of = CASES[name]
    found = outputs_of(make(), inputs_of(np.ones((2, 0), int)))
    some = outputs_of(make(), inputs_of(np.ones((2, 3), int)))
    assert [x.ndim for x in found] == [x.ndim for x in some]
    assert name not in ZERO or not found[0].any()


@pytest.mark.parametrize(
    "name",
    [
        "AttentionCell",
        "BahdanauDecoderCell",
        "RecurrentDecoder",
        "SequenceToSequence states",
        "SequenceToSequence both",
    ],
)
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
        found = outputs_of(
            layer, {"inputs": np.zeros(shape, "float32"), **mask}, return_attention_scores=True
        )
        assert [x.shape for x in found] == [(2, 4), shape[:3], shape[:2]]


def test_an_encoder_that_reads_nothing_leaves_its_first_state():
    layer = layers.SequenceToSequence(GRU(3), GRU(3), seed=1)
    source, target = normal(2, 3, 4), normal(2, 2, 4, seed=1)
    (masked,) = outputs_of(
        layer, {"source": source, "target": target, "source_mask": np.zeros((2, 3), bool)}
    )
    (none,) = outputs_of(layer, {"source": source[:, :0], "target": target})
    np.testing.assert_allclose(none, masked, 1e-6, 1e-6)
