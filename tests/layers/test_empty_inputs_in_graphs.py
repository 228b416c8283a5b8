"""Every layer in graphs with no row, no step, no query and no key, whose lengths are known or not.

What is wrong here may end the process: TensorFlow 2.21 divides by 0 where it optimizes a product
of an empty tensor by ones, as the gradient of a sum is.
"""

import keras
import numpy as np
import pytest

from tests.support.layer_calls import CASES, FEATURES, RECURRENT
from tests.support.quick import quick

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="others know the lengths of all that they run"
)
tf = pytest.importorskip("tensorflow")
QUERIES = {"query", "target_ids", "target", "second", "query_positions"}


def empty_inputs(name, inputs_of):
    """Dictionaries of arrays: without rows, steps, queries, and with neither queries nor keys."""
    full = inputs_of(np.ones((2, 3), int))
    yield {key: x[:0] for key, x in full.items()}
    if name in FEATURES | RECURRENT:  # that need some
        return
    none = inputs_of(np.ones((2, 0), int))
    yield none
    queries = {"inputs"} if "encoded" in full else QUERIES & full.keys()
    if 0 < len(queries) < len(full) and "query_mask" not in full:
        for inputs in (full, none):
            yield {key: x[:, :0] if key in queries else x for key, x in inputs.items()}


def unknown(name, key, x):
    """Specification without batch and lengths; the last axis of floats but weights is a depth."""
    lengths = 1 if name in FEATURES else x.ndim - (x.dtype.kind == "f" and key != "attention")
    return tf.TensorSpec(
        [None if axis < lengths else size for axis, size in enumerate(x.shape)], x.dtype
    )


def learning(layer, inputs):
    """Outputs of a call and the gradients of their sum."""
    first, *rest = inputs
    with tf.GradientTape() as tape:
        outputs = layer(inputs[first], **{key: inputs[key] for key in rest})
        total = sum(tf.reduce_sum(tf.cast(x, "float32")) for x in keras.tree.flatten(outputs))
    gradients = tape.gradient(
        total,
        [v.value for v in layer.trainable_variables],
        unconnected_gradients=tf.UnconnectedGradients.ZERO,
    )
    return outputs, [tf.convert_to_tensor(x) for x in gradients]


@pytest.mark.parametrize(
    "name",
    quick(
        CASES,
        *("BahdanauDecoderCell", "CRF", "HardAttention reinforce", "LocalAttention predictive"),
        *("MultiHeadAttention", "TransformerEncoderLayer True", "WindowAttention"),
    ),
)
def test_one_graph_for_all_lengths_gives_what_eager_calls_give(name):
    check_graphs(name, jit=False, known_lengths=False)


# These trace and compile a function for each shape.
@pytest.mark.parametrize(
    "jit",
    [
        pytest.param(False, marks=pytest.mark.thorough),
        pytest.param(True, marks=pytest.mark.runs),
    ],
)
@pytest.mark.parametrize("name", CASES)
def test_graphs_of_nothing_give_what_eager_calls_give(name, jit):
    check_graphs(name, jit, known_lengths=True)


def check_graphs(name, jit, known_lengths):
    make, inputs_of = CASES[name]
    layer, full = make(), inputs_of(np.ones((2, 3), int))
    learning(layer, full)  # builds it
    general = tf.function(
        lambda inputs: learning(layer, inputs),
        jit_compile=jit,
        autograph=False,
        input_signature=[{key: unknown(name, key, x) for key, x in full.items()}],
    )
    for inputs in (full, *empty_inputs(name, inputs_of)):
        wanted = keras.tree.flatten(learning(layer, inputs))
        known = tf.function(
            lambda inputs: learning(layer, inputs), jit_compile=jit, autograph=False
        )
        inputs = {key: tf.convert_to_tensor(x) for key, x in inputs.items()}
        for function in (general, known) if known_lengths else (general,):
            found = keras.tree.flatten(function(inputs))
            for one, other in zip(found, wanted, strict=True):
                assert np.isfinite(one).all()
                np.testing.assert_allclose(one, other, 1e-4, 1e-4)
