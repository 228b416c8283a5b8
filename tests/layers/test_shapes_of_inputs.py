"""Inputs of layers whose shapes do not fit one another are named in one ValueError."""

import inspect

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn import layers
from keras_attn.layers.shapes import require_axes
from keras_attn.ops import take_positions

RANDOM = np.random.default_rng(0)
PAIRS = {
    "MultiHeadAttention": lambda: layers.MultiHeadAttention(2, 4),
    "Attention": lambda: layers.Attention("additive"),
    "LocalAttention": lambda: layers.LocalAttention(2, "predictive"),
    "HardAttention": lambda: layers.HardAttention("gumbel", score="dot"),
    "LuongAttention": lambda: layers.LuongAttention(4),
    "PointerAttention": lambda: layers.PointerAttention(3),
    "TransformerDecoderLayer": lambda: layers.TransformerDecoderLayer(2, 8),
    "ABCNN1Attention": lambda: layers.ABCNN1Attention(5),
    "ABCNN2Pooling": lambda: layers.ABCNN2Pooling(2),
    **{
        name: getattr(layers, name)
        for name in ("DotScore", "CosineScore", "ConcatScore", "AdditiveScore", "BilinearScore")
    },
}
SINGLE = {
    "RelativeAttention": lambda: layers.RelativeAttention(2, 4),
    "WindowAttention": lambda: layers.WindowAttention(2, 4, 1),
    "ExpandedWindowAttention": lambda: layers.ExpandedWindowAttention(2, 4, 1),
    "MixedAttention": lambda: layers.MixedAttention(2, 4, 1),
    "TransformerEncoderLayer": lambda: layers.TransformerEncoderLayer(2, 8),
    "AttentionPooling": lambda: layers.AttentionPooling(3),
    "CRF": layers.CRF,
}


def values(*shape):
    return RANDOM.normal(size=shape).astype("float32")


def first(outputs):
    return ops.convert_to_numpy(outputs[0] if isinstance(outputs, (tuple, list)) else outputs)


@pytest.mark.parametrize("name", PAIRS)
def test_two_inputs_of_other_batches_before_and_after_build(name):
    layer = PAIRS[name]()
    one, other = list(inspect.signature(layer.call).parameters)[:2]
    message = (
        rf"{name}: {other} must be of shape \(2, .*Received: {other} of shape \(3, 5, 4\), "
        rf"{one} of shape \(2, 5, 4\)"
    )
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            layer(values(2, 5, 4), values(3, 5, 4))
        layer(values(2, 5, 4), values(2, 5, 4))


@pytest.mark.parametrize("name", PAIRS)
def test_a_batch_of_one_broadcasts_to_what_repeated_inputs_give(name):
    layer = PAIRS[name]()
    one, two = values(1, 5, 4), values(2, 5, 4)
    layer(two, two)
    for pair in ((two, one), (one, two)):
        if name == "ABCNN1Attention" or (name == "LuongAttention" and pair[0] is one):
            with pytest.raises(ValueError, match="must be of shape"):
                layer(*pair)
            continue
        found = [layer(*pair), layer(*(np.broadcast_to(x, two.shape) for x in pair))]
        if name == "HardAttention":  # draws
            assert first(found[0]).shape == first(found[1]).shape
        elif name != "ABCNN2Pooling" or pair[0] is two:  # it returns both inputs, pooled
            np.testing.assert_allclose(*map(first, found), atol=1e-5)


@pytest.mark.parametrize("name", PAIRS)
def test_unknown_sizes_fit(name):
    # On other backends Keras traces every unknown size as the same number.
    batch_size = 2 if keras.backend.backend() == "tensorflow" else None
    inputs = [keras.Input((None, 4)), keras.Input((None, 4), batch_size=batch_size)]
    outputs = PAIRS[name]()(*inputs)
    model = keras.Model(inputs, outputs[0] if isinstance(outputs, tuple) else outputs)
    assert model([values(2, 3, 4), values(2, 5, 4)]).shape[0] == 2


@pytest.mark.parametrize("name", sorted({*PAIRS, *SINGLE} - {"TransformerDecoderLayer"}))
def test_python_lists_are_not_tensors(name):
    make = PAIRS.get(name) or SINGLE[name]
    one = next(iter(inspect.signature(make().call).parameters))
    inputs = [[[[1.0, 2.0]]]] * (2 if name in PAIRS else 1)
    message = rf"{name}: {one} must be a tensor or an array. Convert it with numpy.array\({one}\)"
    with pytest.raises(ValueError, match=message):
        make()(*inputs)


@pytest.mark.parametrize("name", SINGLE)
def test_a_layer_that_is_built_names_another_depth_or_number_of_axes(name):
    layer = SINGLE[name]()
    layer(values(2, 5, 4))
    with pytest.raises(ValueError, match=r"must have 4 entries.* shape \(2, 5, 6\)"):
        layer(values(2, 5, 6))
    with pytest.raises(ValueError, match=r"must be of shape \(B, T, .\).* of shape \(5, 4\)"):
        layer(values(5, 4))


def zeros(shapes):
    """Float sequences, and integers of two axes."""
    return [np.zeros(shape, "int32" if len(shape) == 2 else "float32") for shape in shapes]


@pytest.mark.parametrize(
    "make, fitting, inputs, message",
    [
        (
            PAIRS["MultiHeadAttention"],
            [(2, 3, 4)] * 3,
            [(2, 3, 4), (2, 5, 4), (2, 3, 4)],
            r"key must be of shape \(2, 5, K\).*"
            r"key of shape \(2, 3, 4\), value of shape \(2, 5, 4\)",
        ),
        (
            PAIRS["MultiHeadAttention"],
            [(2, 3, 4)] * 2,
            [(2, 3, 4), (2, 3, 3, 4)],
            r"value must be of shape \(2, S, V\)",
        ),
        (
            lambda: layers.MultiHeadAttention(2, 4, attention_axes=1),
            [(2, 3, 5, 4)] * 2,
            [(2, 3, 5, 4), (2, 3, 6, 4)],
            r"equal sizes in all axes .*"
            r"query of shape \(2, 3, 5, 4\), value of shape \(2, 3, 6, 4\)",
        ),
        (
            PAIRS["Attention"],
            [(2, 3, 4)] * 3,
            [(2, 3, 4), (2, 5, 4), (2, 3, 4)],
            r"key must be of shape \(2, 5, K\)",
        ),
        (
            PAIRS["DotScore"],
            [(2, 3, 4)] * 2,
            [(2, 3, 4), (2, 3, 5)],
            r"key must be of shape \(2, S, 4\)",
        ),
        (
            lambda: layers.SequenceToSequence(*map(keras.layers.LSTMCell, (4, 4))),
            [(2, 3, 4)] * 2,
            [(2, 3, 4), (3, 3, 4)],
            r"target must be of shape \(2, T, E\)",
        ),
        (
            lambda: layers.CopyDistribution(),
            [(2, 3, 9), (2, 3, 5), (2, 5), (2, 3, 1)],
            [(2, 3, 9), (2, 3, 5), (2, 4), (2, 3, 1)],
            r"source_ids must be of shape \(2, 5\).*"
            r"source_ids of shape \(2, 4\), attention of shape",
        ),
        (
            lambda: layers.RecurrentDecoder(layers.BahdanauDecoderCell(4), 9, 4),
            [(2, 3), (2, 5, 4)],
            [(2, 3), (3, 5, 4)],
            r"memory must be of shape \(2, S, D\).* target_ids of shape \(2, 3\)",
        ),
    ],
)
def test_layers_that_are_built_check_their_inputs(make, fitting, inputs, message):
    layer = make()
    layer(*zeros(fitting))
    with pytest.raises(ValueError, match=message):
        layer(*zeros(inputs))


@pytest.mark.parametrize(
    "make",
    [lambda: layers.LearnedPositionEmbedding(9), lambda: layers.SinusoidalPositionEncoding()],
)
def test_position_ids_of_another_length(make):
    layer, x = make(), values(2, 3, 4)
    for shape in ((3,), (2, 3), (1, 3)):
        assert layer(x, position_ids=np.zeros(shape, "int32")).shape == x.shape
    with pytest.raises(ValueError, match=r"position_ids must be of shape \(2, 3\)"):
        layer(x, position_ids=np.zeros((2, 4), "int32"))
    with pytest.raises(ValueError, match=r"position_ids must be of shape \(3\)"):
        layer(x, position_ids=np.zeros((4,), "int32"))


def test_require_axes():
    axes = {"a": "BT", "b": "B...", "c": "TK"}
    for shapes in (
        {"a": (2, 3), "b": (2, 9, 9), "c": (3, 5)},
        {"a": (None, 3), "b": (4,)},
        {"a": (1, None), "b": (4, 1), "c": (7, None)},
        {"a": None, "c": (2, 2)},
        {"a": (2, "symbol"), "c": (4, 4)},
        {"a": (0, 0), "b": (0,), "c": (0, 1)},
    ):
        require_axes("Owner", axes, shapes)
    for shapes, message in (
        (
            {"a": (2, 3), "b": (4, 3)},
            r"Owner: b must be of shape \(2, ...\). Received: b of "
            r"shape \(4, 3\), a of shape \(2, 3\)$",
        ),
        ({"a": (None, 3), "c": (1, 2)}, r"c must be of shape \(3, K\).*a of shape \(\?, 3\)"),
        ({"a": (2, 3, 4)}, r"a must be of shape \(B, T\). Received: a of shape \(2, 3, 4\)$"),
        ({"a": (0, 3), "b": (2,)}, r"b must be of shape \(0, ...\)"),
    ):
        with pytest.raises(ValueError, match=message):
            require_axes("Owner", axes, shapes)
    with pytest.raises(ValueError, match=r"b must be of shape \(4, ...\)"):
        require_axes("Owner", axes, {"a": (4, 3), "b": (1,)}, same_batch=("b",))


def test_positions_may_be_those_of_all_rows():
    x = values(2, 5, 4)
    found = take_positions(x, np.array([[3, 0]]))
    np.testing.assert_array_equal(ops.convert_to_numpy(found), x[:, [3, 0]])


@pytest.mark.parametrize(
    "make", [lambda: layers.MultiHeadAttention(2, 4), lambda: layers.WindowAttention(2, 4, 1)]
)
def test_a_cache_of_another_batch(make):
    layer, x = make(), values(2, 1, 4)
    layer(x, x)
    cache = layers.MultiHeadAttention(2, 4).make_cache(3, 5)
    with pytest.raises(ValueError, match=r"cache must contain tensors of shape \(2, 2, 5, 4\)\. "):
        layer(x, x, cache=cache, cache_index=0)
