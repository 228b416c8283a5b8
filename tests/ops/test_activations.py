import math

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.ops import gelu_erf, gelu_tanh, kernels, relu2
from keras_attn.ops.activations import get_activation, serialize_activation
from tests.support.layer_checks import gradients, in_a_graph

ROOT = math.sqrt(2 / math.pi)


def _tanh_form(x):
    """GELU by tanh, and its derivative."""
    t = np.tanh(ROOT * (x + 0.044715 * x**3))
    return 0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t**2) * ROOT * (1 + 0.134145 * x**2)


def _erf_form(x):
    """x Phi(x), and its derivative."""
    below = 0.5 * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2)))
    return x * below, below + x * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("count", [2001, 300_000])  # the last are worth compiling on TensorFlow
@pytest.mark.parametrize(("function", "form"), [(gelu_tanh, _tanh_form), (gelu_erf, _erf_form)])
def test_gelu_and_its_gradient_equal_the_formula(function, form, count, dtype):
    x = np.linspace(-6, 6, count).astype("float32")
    x = ops.convert_to_numpy(ops.cast(ops.cast(x, dtype), "float32"))
    value, derivative = form(x.astype("float64"))

    def found(x):
        return ops.cast(function(ops.cast(x, dtype)), "float32")

    upstream = np.random.default_rng(0).normal(size=count).astype("float32")
    # 1 - tanh^2 has the noise of tanh, some 2^-12 in float16, eight times as large far left.
    atol, atol_of_gradient = {
        "float32": (2e-6, 2e-5),
        "bfloat16": (0.02, 0.08),
        "float16": (0.003, 0.02),
    }[dtype]
    np.testing.assert_allclose(
        ops.convert_to_numpy(in_a_graph(found)(ops.convert_to_tensor(x))), value, atol=atol
    )
    (gradient,) = gradients(in_a_graph(lambda t: ops.sum(ops.multiply(found(t[0]), upstream))), [x])
    np.testing.assert_allclose(gradient, derivative * upstream, atol=atol_of_gradient)


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="others know their shapes")
@pytest.mark.parametrize(("function", "form"), [(gelu_tanh, _tanh_form), (gelu_erf, _erf_form)])
def test_gelu_of_batches_of_unknown_length_equals_the_formula(function, form):
    import tensorflow as tf

    def found(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return y, tape.gradient(y, x, x)

    signature = [tf.TensorSpec((None, None, 512))]
    found = kernels.of_backend("tensorflow").graphs.traced(found, False, input_signature=signature)
    for shape in (2, 3, 512), (4, 600, 512), (0, 3, 512):  # blocks are larger than the first
        x = np.random.default_rng(0).normal(size=shape).astype("float32")
        value, derivative = form(x.astype("float64"))
        y, gradient = found(x)
        assert y.shape == gradient.shape == shape
        np.testing.assert_allclose(y, value, atol=2e-6)
        np.testing.assert_allclose(gradient, derivative * x, atol=5e-5)


def test_the_two_forms_of_gelu_differ_by_at_most_a_two_thousandth():
    x = np.linspace(-6, 6, 2001).astype("float32")
    tanh, erf = (ops.convert_to_numpy(f(x)) for f in (gelu_tanh, gelu_erf))
    assert 4e-4 < np.abs(tanh - erf).max() < 5e-4


def test_relu2_and_its_gradient_equal_the_formula():
    x = np.linspace(-3, 3, 13).astype("float32")
    np.testing.assert_allclose(ops.convert_to_numpy(relu2(x)), np.maximum(x, 0) ** 2, rtol=1e-6)
    (gradient,) = gradients(in_a_graph(lambda t: ops.sum(relu2(t[0]))), [x])
    np.testing.assert_allclose(gradient, 2 * np.maximum(x, 0), rtol=1e-6)


def test_activations_survive_their_config_and_plain_gelu_is_refused():
    for name in ("gelu_tanh", "gelu_erf", "relu2", "relu", "tanh"):
        function = get_activation(name)
        assert get_activation(serialize_activation(function)) is function
    assert get_activation(keras.activations.gelu) is gelu_erf
    with pytest.raises(ValueError, match="gelu_tanh"):
        get_activation("gelu")
    with pytest.raises(ValueError, match="nothing"):
        get_activation("nothing")
