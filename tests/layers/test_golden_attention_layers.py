"""More layers against public implementations with the same weights: see golden/README.md."""

import pathlib

import keras
import numpy as np
import pytest
from keras import ops
from layer_checks import run

from keras_attn.layers import (
    ABCNN1Attention,
    AttentionCell,
    LuongAttention,
    PointerAttention,
    RelativeAttention,
    SinusoidalPositionEncoding,
)

FOLDER = pathlib.Path(__file__).parents[1] / "golden"


def golden(name, part=""):
    """The arrays of a part of a file."""
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as file:
        return {key.removeprefix(part): file[key] for key in file.files if key.startswith(part)}


def assign(layer, weights):
    """Sets weights by the last part of their paths; all must be given, and no two named alike."""
    assert sorted(v.path.split("/")[-1] for v in layer.weights) == sorted(weights)
    for variable in layer.weights:
        variable.assign(weights[variable.path.split("/")[-1]])


def test_opennmt_has_the_same_relative_attention_of_shaw():
    arrays = golden("attention_layers", "shaw/")
    layer = RelativeAttention(2, 3, style="shaw", max_distance=3)
    inputs = {"query": arrays["x"], "value_mask": arrays["mask"]}
    arguments = {"return_attention_scores": True}
    run(layer, inputs, arguments)
    parts = [f"linear_{part}" for part in ("query", "keys", "values")]
    # Its table, one for keys and values, is of the distance the other way around.
    table = arrays["relative_positions_embeddings.weight"][::-1]
    assign(layer, {
        "query_key_value_kernel": np.concatenate([arrays[f"{p}.weight"].T for p in parts], axis=1),
        "query_key_value_bias": np.concatenate([arrays[f"{p}.bias"] for p in parts]),
        "output_kernel": arrays["final_linear.weight"].T,
        "output_bias": arrays["final_linear.bias"], "key_table": table, "value_table": table})
    for index, name in enumerate(("output", "scores")):
        found = run(layer, inputs, arguments, index=index)
        np.testing.assert_allclose(found, arrays[name], 1e-5, 1e-5, err_msg=name)


def test_steps_with_input_feeding_are_those_of_the_attention_wrapper_of_tensorflow_addons():
    arrays = golden("attention_layers", "wrapper/")
    cell = AttentionCell(keras.layers.LSTMCell(4, name="lstm"),
                         LuongAttention(7, "general", activation=None, name="luong"))
    cell.build((2, 3), (2, 5, 6))
    memory, states = cell.prepare_memory(arrays["memory"], arrays["mask"]), cell.start(None, 2)
    join = arrays["attention_kernel"]  # of the state, then of the context
    weights = {"lstm/kernel": arrays["kernel"], "lstm/bias": arrays["bias"],
               "lstm/recurrent_kernel": arrays["recurrent_kernel"],
               "score/kernel": arrays["memory_kernel"].T,
               "luong/kernel": np.concatenate([join[4:], join[:4]])}
    assert sorted("/".join(v.path.split("/")[-2:]) for v in cell.weights) == sorted(weights)
    for variable in cell.weights:
        variable.assign(weights["/".join(variable.path.split("/")[-2:])])
    for step in range(4):
        outputs, states = cell(arrays["inputs"][:, step], states, memory)
        for ours, theirs in (("output", "output"), ("weights", "scores")):
            np.testing.assert_allclose(ops.convert_to_numpy(outputs[ours]),
                                       arrays[theirs][:, step], 1e-5, 1e-5, err_msg=theirs)


@pytest.mark.parametrize(("index", "name"), [(0, "first"), (1, "second")])
def test_attention_before_a_convolution_is_that_of_codykala(index, name):
    arrays = golden("attention_layers", "abcnn/")
    layer = ABCNN1Attention(6, share_weights=False)
    inputs = {part: arrays[part] for part in ("first", "second")}
    run(layer, inputs)
    assign(layer, {"first_kernel": arrays["W1"], "second_kernel": arrays["W2"]})
    # (B, 2, T, D) -> (B, T, 2 D)
    expected = arrays[f"{name}_output"].swapaxes(1, 2).reshape(2, 6, 10)
    np.testing.assert_allclose(run(layer, inputs, index=index), expected, 1e-5, 1e-5)


def test_sines_before_cosines_are_those_of_marian():
    table = golden("attention_layers", "marian/")["table"]
    layer = SinusoidalPositionEncoding(layout="concat")
    found = ops.convert_to_numpy(layer(np.zeros((1, *table.shape), "float32")))[0]
    np.testing.assert_allclose(found, table, 1e-5, 1e-6)


def test_pointing_is_the_additive_attention_of_joeynmt():
    arrays = golden("joeynmt_attention")
    layer = PointerAttention(7)
    inputs = {"query": arrays["query"].astype("float32"),
              "value": arrays["value"].astype("float32"), "value_mask": arrays["value_mask"]}
    arguments = {"return_attention_scores": True}
    run(layer, inputs, arguments)
    names = {"query_kernel": "query", "key_kernel": "key", "vector": "energy"}
    assign(layer, {ours: arrays[f"bahdanau/{theirs}_layer.weight"].T
                   for ours, theirs in names.items()})
    found = run(layer, inputs, arguments, index=1)
    np.testing.assert_allclose(found, arrays["bahdanau/scores"], 1e-5, 1e-6)
