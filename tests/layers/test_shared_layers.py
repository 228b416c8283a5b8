import copy

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import (
    Attention,
    AttentionCell,
    BahdanauDecoderCell,
    BilinearScore,
    HardAttention,
    LocalAttention,
    LuongAttention,
    MultiHeadAttention,
    RecurrentDecoder,
    RelativePositionBias,
)
from tests.support.quick import quick

X = np.random.default_rng(0).normal(size=(2, 5, 6)).astype("float32")


def outputs_of(model):
    return ops.convert_to_numpy(model(X))  # `predict` would compile it


def score():
    return BilinearScore(seed=1, name="shared")


def decoders(x, cells):
    ids = ops.cast(x[..., 0] > 0, "int32")
    return sum(
        RecurrentDecoder(cell, 9, 4, name=f"decoder_{i}")(ids, x)[0] for i, cell in enumerate(cells)
    )


def cells_with(attention):
    return [
        AttentionCell(keras.layers.GRUCell(6, name=f"gru_{name}"), attention, name=f"cell_{name}")
        for name in "ab"
    ]


# Makes a shared part, and what two layers with it make of x.
SHARED = {
    "score": (
        score,
        lambda part, x: Attention(part, name="a")(
            LocalAttention(2, score=part, name="b")(x, x), HardAttention(score=part, name="c")(x, x)
        ),
    ),
    "score of Luong's": (
        score,
        lambda part, x: LuongAttention(6, part, name="a")(
            LuongAttention(6, part, name="b")(x, x), x
        ),
    ),
    "score of his attention": (
        score,
        lambda part, x: LuongAttention(6, attention=LocalAttention(2, score=part), name="a")(
            LuongAttention(6, attention=Attention(part), name="b")(x, x), x
        ),
    ),
    "attention": (
        lambda: Attention("bilinear", name="shared"),
        lambda part, x: LuongAttention(6, attention=part, name="a")(
            LuongAttention(6, attention=part, name="b")(x, x), x
        ),
    ),
    "attention of cells": (
        lambda: LuongAttention(6, score(), name="shared"),
        lambda part, x: decoders(x, cells_with(part)),
    ),
    "cell": (
        lambda: BahdanauDecoderCell(6, name="shared"),
        lambda part, x: decoders(x, [part, part]),
    ),
    "position": (
        lambda: RelativePositionBias(2, name="shared"),
        lambda part, x: (
            MultiHeadAttention(2, 3, position=part, name="a")(x, x)
            + MultiHeadAttention(2, 3, position=part, name="b")(x, x)
        ),
    ),
}


@pytest.mark.parametrize("name", quick(SHARED, *(name for name in SHARED if "cell" not in name)))
def test_what_two_layers_share_they_share_in_a_clone(name):
    part, make = SHARED[name]
    inputs = keras.Input((None, 6))
    model = keras.Model(inputs, make(part(), inputs))
    clones = [keras.models.clone_model(model) for _ in range(2)]
    known = {id(weight) for weight in model.weights}
    for clone in clones:
        assert len(clone.weights) == len(model.weights)
        own = {id(weight) for weight in clone.weights}
        assert len(own) == len(model.weights) and not own & known
        known |= own
        clone.set_weights(model.get_weights())
        np.testing.assert_allclose(outputs_of(clone), outputs_of(model), atol=1e-6)


def test_a_config_that_was_edited_or_copied_makes_a_part_of_its_own():
    layer = MultiHeadAttention(2, 3, position=RelativePositionBias(2))
    config = layer.get_config()
    config["position"]["config"]["num_buckets"] = 16
    assert MultiHeadAttention.from_config(config).position.num_buckets == 16
    copied = copy.deepcopy(layer.get_config())
    assert type(copied["position"]) is dict
    made = MultiHeadAttention.from_config(copied).position
    assert made.num_buckets == 32 and made is not layer.position


@pytest.mark.parametrize("name", quick(SHARED, *(name for name in SHARED if "cell" not in name)))
def test_what_two_layers_share_they_share_after_loading(name, tmp_path):
    part, make = SHARED[name]
    inputs = keras.Input((None, 6))
    model = keras.Model(inputs, make(part(), inputs))
    found, paths = outputs_of(model), [weight.path for weight in model.weights]
    assert any("shared" in path for path in paths)
    for _ in range(2):  # a loaded model is as good as the one that was saved
        model.save(tmp_path / "model.keras")
        model = keras.saving.load_model(tmp_path / "model.keras")
        assert [weight.path for weight in model.weights] == paths
        np.testing.assert_allclose(outputs_of(model), found, atol=1e-6)
