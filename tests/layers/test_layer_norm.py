import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers.layer_norm import LayerNorm
from keras_attn.ops import kernels
from tests.support.layer_checks import gradients, in_a_graph

EPSILON = 1e-3


def _formula(x, gamma, beta, upstream):
    """The result, and the gradients of x, gamma and beta."""
    centred = x - x.mean(-1, keepdims=True)
    scale = np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
    normal, change = centred / scale, upstream * gamma
    of_x = (
        change - change.mean(-1, keepdims=True) - normal * (change * normal).mean(-1, keepdims=True)
    ) / scale
    others = tuple(range(x.ndim - 1))
    return normal * gamma + beta, of_x, (upstream * normal).sum(others), upstream.sum(others)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("shape", [(5, 8), (2, 600, 256)])  # the last is compiled on TensorFlow
def test_it_and_its_gradients_equal_the_formula(shape, policy):
    random = np.random.default_rng(0)
    dtype = "float32" if policy == "float32" else "bfloat16"
    x = random.normal(2.0, 3.0, shape).astype("float32")
    x, upstream = (
        ops.convert_to_numpy(ops.cast(ops.cast(array, dtype), "float32"))
        for array in (x, random.normal(size=shape).astype("float32"))
    )
    gamma, beta = random.normal(size=(2, shape[-1])).astype("float32")
    layer = LayerNorm(epsilon=EPSILON, dtype=policy)
    layer.build(shape)
    variables = layer.trainable_variables

    def found(x, gamma, beta):
        y, _ = layer.stateless_call([gamma, beta], [], ops.cast(x, dtype))
        return ops.cast(y, "float32")

    assert [v.name for v in variables] == ["gamma", "beta"]
    value, *expected = _formula(*(a.astype("float64") for a in (x, gamma, beta, upstream)))
    atol = 0.1 if dtype == "bfloat16" else 1e-5
    tensors = [ops.convert_to_tensor(array) for array in (x, gamma, beta)]
    np.testing.assert_allclose(ops.convert_to_numpy(in_a_graph(found)(*tensors)), value, atol=atol)
    got = gradients(
        in_a_graph(lambda t: ops.sum(ops.multiply(found(*t), upstream))), [x, gamma, beta]
    )
    for name, one, other in zip(("x", "gamma", "beta"), got, expected, strict=True):
        # Sums of so many rows in bfloat16's steps are as near as a part of their size.
        size = np.abs(other).max()
        np.testing.assert_allclose(
            one / size, other / size, atol=atol / 4 if dtype == "bfloat16" else 1e-5, err_msg=name
        )


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="others know their shapes")
def test_gradients_of_batches_of_unknown_length_equal_the_formula():
    import tensorflow as tf

    random, width = np.random.default_rng(0), 256
    weights = random.normal(size=(2, width)).astype("float32")
    layer = LayerNorm(epsilon=EPSILON)
    layer.build((None, None, width))

    def found(x, gamma, beta):
        with tf.GradientTape() as tape:
            tape.watch([x, gamma, beta])
            y, _ = layer.stateless_call([gamma, beta], [], x)
        return y, *tape.gradient(y, [x, gamma, beta], x)

    signature = [tf.TensorSpec(shape) for shape in ((None, None, width), width, width)]
    found = kernels.of_backend("tensorflow").graphs.traced(found, False, input_signature=signature)
    for shape in (2, 3, width), (4, 1100, width):  # the last in blocks, the last of them not full
        x = random.normal(2.0, 3.0, shape).astype("float32")
        expected = _formula(*(a.astype("float64") for a in (x, *weights, x)))
        for one, other in zip(found(x, *weights), expected, strict=True):
            size = np.abs(other).max()
            np.testing.assert_allclose(one / size, other / size, atol=1e-5)


def test_float64_keeps_its_digits():
    x = np.random.default_rng(0).normal(size=(4, 7))
    layer = LayerNorm(epsilon=EPSILON, dtype="float64")
    expected = _formula(x, 1.0, 0.0, x)[0]
    found = ops.convert_to_numpy(layer(ops.convert_to_tensor(x)))
    # JAX has no float64 by default, and on PyTorch Keras's sums are of float32.
    atol = 1e-13 if keras.backend.backend() == "tensorflow" else 1e-5
    np.testing.assert_allclose(found, expected, atol=atol)
