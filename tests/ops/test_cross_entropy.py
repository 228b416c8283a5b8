import keras
import numpy as np
import pytest
from keras import ops
from layer_checks import compiled, gradients, in_a_graph

from keras_attn.ops import sparse_cross_entropy
from keras_attn.ops.cross_entropy import cross_entropy_and_hits


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("shape", [(5,), (2, 3), ()])
def test_values_and_gradients_equal_the_formula(shape):
    random = np.random.default_rng(0)
    logits = (5 * random.normal(size=(*shape, 7))).astype("float32")
    labels = random.integers(0, 7, shape).astype("int32")
    weights = np.asarray(random.normal(size=shape), "float32")
    chances = softmax(logits.astype("float64"))
    expected = -np.log(np.take_along_axis(chances, labels[..., None], -1)[..., 0])
    for function in (sparse_cross_entropy, compiled(sparse_cross_entropy)):
        tensors = ops.convert_to_tensor(labels), ops.convert_to_tensor(logits)
        found = ops.convert_to_numpy(function(*tensors))
        np.testing.assert_allclose(found, expected, 1e-5, 1e-6)

    def loss(tensors):
        return ops.sum(ops.multiply(sparse_cross_entropy(labels, tensors[0]), weights))

    (gradient,) = gradients(loss, [logits])
    expected = (chances - np.eye(7)[labels]) * weights[..., None]
    np.testing.assert_allclose(gradient, expected, 1e-4, 1e-6)


def test_no_label_gives_no_loss():
    found = sparse_cross_entropy(np.zeros(0, "int32"), np.zeros((0, 7), "float32"))
    assert tuple(found.shape) == (0,)


def test_logits_far_apart_neither_overflow_nor_lose_their_gradient():
    logits = np.array([[1e4, -1e4, 0.0], [88.0, 88.0, -1e30]], "float32")
    labels = np.array([1, 0])
    found = ops.convert_to_numpy(sparse_cross_entropy(labels, logits))
    np.testing.assert_allclose(found, [2e4, np.log(2)], 1e-6)
    (gradient,) = gradients(lambda t: ops.sum(sparse_cross_entropy(labels, t[0])), [logits])
    np.testing.assert_allclose(gradient, [[1, -1, 0], [-0.5, 0.5, 0]], atol=1e-6)


def test_losses_are_float32_whatever_the_logits():
    logits = ops.cast(np.array([[1.0, 2.0]]), "bfloat16")
    found = sparse_cross_entropy(np.array([0]), logits)
    assert keras.backend.standardize_dtype(found.dtype) == "float32"
    np.testing.assert_allclose(ops.convert_to_numpy(found), [np.log(1 + np.e)], 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("rows", [3, 40])  # 40 are worth compiling on TensorFlow
def test_a_vocabulary_gives_losses_hits_and_gradients_of_the_formula(rows, dtype):
    random, classes = np.random.default_rng(0), 8000
    products = (5 * random.normal(size=(rows, classes))).astype("float32")
    labels = np.where(np.arange(rows) % 2, products.argmax(-1), 7)
    products[1] -= 1e4 * (np.arange(classes) != labels[1])  # its loss is 0
    products[2] += 1e4 * (np.arange(classes) == 8)  # its loss is 1e4
    products = ops.convert_to_numpy(ops.cast(ops.cast(products, dtype), "float32"))
    bias, upstream = (random.normal(size=size).astype("float32") for size in (classes, rows))
    logits = products.astype("float64") + bias

    def found(products, bias):
        products = ops.cast(products, dtype)
        return cross_entropy_and_hits(labels, products, bias, ops.cast(products, "float32") + bias)

    losses, right = in_a_graph(found)(*map(ops.convert_to_tensor, (products, bias)))
    chances, own = softmax(logits), logits[np.arange(rows), labels]
    most = logits.max(-1)
    expected = np.log(np.exp(logits - most[:, None]).sum(-1)) + most - own
    np.testing.assert_allclose(ops.convert_to_numpy(losses), expected, 1e-5, 1e-5)
    np.testing.assert_array_equal(ops.convert_to_numpy(right), own == most)

    of_products, of_bias = gradients(in_a_graph(
        lambda t: ops.sum(ops.multiply(found(*t)[0], upstream))), [products, bias])
    expected = (chances - np.eye(classes)[labels]) * upstream[:, None]
    rounding = {"float32": 1e-4, "bfloat16": 2**-8, "float16": 2**-11}[dtype]
    np.testing.assert_allclose(of_products, expected, rounding, 1e-6)
    np.testing.assert_allclose(of_bias, expected.sum(0), rounding, 2e-6)
