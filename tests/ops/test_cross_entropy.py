import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.ops import LinearTeacher, linear_cross_entropy, sparse_cross_entropy
from tests.support.layer_checks import compiled, gradients, in_a_graph
from tests.support.quick import quick


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


BLOCKS = {"one": 1 << 25, "ragged": 7 * 8000, "a row each": 1}


KINDS = ("float32", 0.0), ("float32", 0.1), ("bfloat16", 0.0), ("float16", 0.1)


@pytest.mark.parametrize(
    "blocks, dtype, label_smoothing",
    quick(
        [(blocks, *kind) for blocks in BLOCKS for kind in KINDS],
        ("ragged", "float32", 0.1),
    ),
)
def test_blocks_give_losses_hits_and_gradients_of_the_formula(blocks, dtype, label_smoothing):
    random, rows, classes = np.random.default_rng(0), 40 if blocks != "a row each" else 5, 8000
    hidden, table = (
        random.normal(size=size).astype("float32") for size in ((rows, 16), (classes, 16))
    )
    if dtype == "float32":
        hidden[2] *= 50  # no softmax of it is far from 0 or 1
    else:  # logits that are rounded little, which XLA may leave out
        hidden /= 8
    hidden, table = (
        ops.convert_to_numpy(ops.cast(ops.cast(x, dtype), "float32")) for x in (hidden, table)
    )
    products = ops.matmul(ops.cast(hidden, dtype), ops.transpose(ops.cast(table, dtype)))
    bias, upstream = (random.normal(size=size).astype("float32") for size in (classes, rows))
    logits = ops.convert_to_numpy(ops.cast(products, "float32")).astype("float64") + bias
    labels = np.where(np.arange(rows) % 2, logits.argmax(-1), 7).astype("int32")

    def found(hidden, table, bias):
        return linear_cross_entropy(
            labels,
            ops.cast(hidden, dtype),
            ops.cast(table, dtype),
            bias,
            label_smoothing,
            BLOCKS[blocks],
        )

    tensors = [ops.convert_to_tensor(x) for x in (hidden, table, bias)]
    chances, own, most = softmax(logits), logits[np.arange(rows), labels], logits.max(-1)
    likelihoods = np.log(np.exp(logits - most[:, None]).sum(-1)) + most - own
    smoothed = likelihoods + label_smoothing * (own - logits.mean(-1))
    for function in (in_a_graph(found), compiled(found)):
        losses, right, plain = map(ops.convert_to_numpy, function(*tensors))
        # Products of half precision are added up in another order in blocks of other sizes.
        tolerance = {"float32": 1e-4, "bfloat16": 0.02, "float16": 4e-3}[dtype]
        np.testing.assert_allclose(losses, smoothed, tolerance, tolerance)
        np.testing.assert_allclose(plain, likelihoods, tolerance, tolerance)
        if dtype == "float32":
            np.testing.assert_array_equal(right, own == most)

    target = (1 - label_smoothing) * np.eye(classes)[labels] + label_smoothing / classes
    change = (chances - target) * upstream[:, None]
    expected = {"hidden": change @ table, "table": change.T @ hidden, "bias": change.sum(0)}
    for compile_it in (in_a_graph, compiled):
        function = compile_it(lambda t: ops.sum(ops.multiply(found(*t)[0], upstream)))
        for (name, wanted), got in zip(
            expected.items(), gradients(function, [hidden, table, bias]), strict=True
        ):
            error = np.abs(got - wanted).max() / np.abs(wanted).max()
            assert error < {"float32": 1e-4, "bfloat16": 0.03, "float16": 4e-3}[dtype], name


@pytest.mark.parametrize(
    "most, smoothing, with_bias",
    quick([(1 << 20, 0.0, True), (7 * 50, 0.1, True), (1, 0.1, False)], (7 * 50, 0.1, True)),
)
def test_a_teacher_adds_its_divergence_to_losses_and_gradients(most, smoothing, with_bias):
    random, rows, classes = np.random.default_rng(1), 20, 50
    hidden, table, upstream = (
        random.normal(size=size).astype("float32") for size in ((rows, 6), (classes, 6), rows)
    )
    others = [random.normal(size=size).astype("float32") for size in ((rows, 9), (classes, 9))]
    biases = [random.normal(size=classes).astype("float32") * with_bias for _ in range(2)]
    labels = random.integers(0, classes, rows).astype("int32")

    def found(hidden, table, bias):
        own, wanted = (bias, biases[1]) if with_bias else (None, None)
        teacher = LinearTeacher(*others, wanted, weight=0.3, temperature=2.5)
        return linear_cross_entropy(labels, hidden, table, own, smoothing, most, teacher)

    arguments = hidden, table, biases[0]
    exact = [x.astype("float64") for x in (hidden, table, *others)]
    logits, wanted = exact[0] @ exact[1].T + biases[0], exact[2] @ exact[3].T + biases[1]
    chances, (q, p) = softmax(logits), (softmax(x / 2.5) for x in (logits, wanted))
    targets = (1 - smoothing) * np.eye(classes)[labels] + smoothing / classes
    entropies = -np.sum(targets * np.log(chances), axis=-1)
    expected = 0.7 * entropies + 0.3 * 2.5**2 * np.sum(p * np.log(p / q), axis=-1)
    plain = -np.log(chances[np.arange(rows), labels])
    change = (0.7 * (chances - targets) + 0.3 * 2.5 * (q - p)) * upstream[:, None]
    gradient = [change @ exact[1], change.T @ exact[0], change.sum(0) * with_bias]
    for compile_it in (in_a_graph, compiled):
        tensors = [ops.convert_to_tensor(x) for x in arguments]
        losses, right, likelihoods = map(ops.convert_to_numpy, compile_it(found)(*tensors))
        np.testing.assert_allclose(losses, expected, 1e-4)
        np.testing.assert_allclose(likelihoods, plain, 1e-4)
        np.testing.assert_array_equal(right, logits.argmax(-1) == labels)
        function = compile_it(lambda t: ops.sum(ops.multiply(found(*t)[0], upstream)))
        for own, exact_own in zip(gradients(function, arguments), gradient, strict=True):
            np.testing.assert_allclose(own, exact_own, 1e-3, 1e-4)


def test_a_teacher_of_the_same_logits_has_no_divergence():
    hidden, table = np.eye(3, 4, dtype="float32") * 90, np.eye(5, 4, dtype="float32")
    teacher = LinearTeacher(hidden, table, None, weight=1.0, temperature=2.0)
    losses, *_ = linear_cross_entropy(np.zeros(3, "int32"), hidden, table, teacher=teacher)
    np.testing.assert_array_equal(ops.convert_to_numpy(losses), 0)
    for name in ("weight", "temperature"):
        with pytest.raises(ValueError, match=f"{name}=-1"):
            wrong = teacher._replace(**{name: -1})
            linear_cross_entropy(np.zeros(3, "int32"), hidden, table, teacher=wrong)


def test_blocks_of_unknown_shape_equal_those_of_a_known_one():
    """A batch of translation has any number of tokens."""
    if keras.config.backend() != "tensorflow":
        pytest.skip("shapes are known on other backends")
    import tensorflow as tf

    random = np.random.default_rng(0)
    table = random.normal(size=(50, 8)).astype("float32")
    for jit in (False, True):

        @tf.function(
            jit_compile=jit,
            autograph=False,
            input_signature=[tf.TensorSpec((None,), "int32"), tf.TensorSpec((None, 8))],
        )
        def function(labels, hidden):
            losses = linear_cross_entropy(labels, hidden, table, most=400)[0]
            return losses, tf.gradients(losses, hidden)[0]

        for rows in (0, 1, 8, 9, 30):
            labels = random.integers(0, 50, rows).astype("int32")
            hidden = random.normal(size=(rows, 8)).astype("float32")
            losses, change = function(labels, hidden)
            chances = softmax(hidden.astype("float64") @ table.T)
            np.testing.assert_allclose(losses, -np.log(chances[np.arange(rows), labels]), 1e-4)
            np.testing.assert_allclose(change, (chances - np.eye(50)[labels]) @ table, 1e-4, 1e-5)


@pytest.mark.parametrize("jit, taught", [(False, False), (True, False), (True, True)])
def test_no_tensor_of_a_step_is_as_large_as_all_logits(jit, taught):
    if keras.config.backend() != "tensorflow":
        pytest.skip("graphs are TensorFlow's")
    import tensorflow as tf

    rows, classes, most = 64, 1000, 8000

    def step(hidden, table):
        teacher = LinearTeacher(hidden, table, None, 0.5, 2.0) if taught else None
        labels = tf.zeros(rows, tf.int32)
        losses = linear_cross_entropy(labels, hidden, table, most=most, teacher=teacher)[0]
        return tf.gradients(losses, [hidden, table])

    function = tf.function(step, jit_compile=jit, autograph=False)
    arguments = tf.ones((rows, 8)), tf.ones((classes, 8))
    graph = function.get_concrete_function(*arguments).graph.as_graph_def(add_shapes=True)
    nodes = [*graph.node, *(node for one in graph.library.function for node in one.node_def)]
    sizes = [
        np.prod([max(d.size, 1) for d in shape.dim])
        for node in nodes
        for shape in node.attr["_output_shapes"].list.shape
    ]
    assert most <= max(sizes) < rows * classes
