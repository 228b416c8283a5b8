"""The heads of a trained model, and the assignment of its weights."""

import dataclasses
import pathlib

import keras
import numpy as np

from keras_attn.convert import read

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"


def test_a_new_head_may_have_the_name_of_a_layer_of_the_backbone():
    encoder = read(GOLDEN / "hugging_face/encoder")
    assert encoder.head_names == {"pooler"}
    weights = {**encoder.weights, "norm/kernel": np.zeros(3)}  # of a head
    assert dataclasses.replace(encoder, weights=weights).head_names == {"norm", "pooler"}
    model = encoder.family.build("backbone", encoder.architecture, {})
    model.build()
    model.norm.gamma.assign(keras.ops.zeros_like(model.norm.gamma) - 7.0)
    encoder.assign(model, new=["norm"])
    np.testing.assert_array_equal(model.norm.gamma, encoder.weights["bert_encoder/norm/gamma"])
