"""Attention in blocks against the formula, and its gradient against that of the plain way."""

import importlib
import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import MultiHeadAttention
from keras_attn.ops import attention, causal_mask, scaled_dot_product_attention
from tests.support.layer_checks import compiled, gradients, layer_gradients, randomize, run
from tests.support.quick import quick

BACKEND = keras.backend.backend()


@pytest.fixture
def small_blocks(monkeypatch):
    kernels = importlib.import_module(f"keras_attn.ops.kernels.{BACKEND}")
    monkeypatch.setattr(kernels, "QUERIES", 4)
    # PyTorch's kernel divides the keys itself.
    monkeypatch.setattr(kernels, "KEYS", 6, raising=False)
    monkeypatch.setitem(attention.BLOCKWISE_MIN_LOGITS, BACKEND, 1)


@pytest.fixture
def plainly(monkeypatch):
    """Function that lets no more be done in blocks."""
    return lambda: monkeypatch.setitem(attention.BLOCKWISE_MIN_LOGITS, BACKEND, 10**9)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def arrays_of(leading=(2, 3), queries=10, keys=13, width=5, values=7):
    return (
        normal(*leading, queries, width),
        normal(*leading, keys, width, seed=1),
        normal(*leading, keys, values, seed=2),
    )


def reference(query, key, value, mask=True):
    """Vaswani et al., eq. 1, in float64; rows without a key are 0."""
    query, key, value = (x.astype("float64") for x in (query, key, value))
    logits = np.where(mask, query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]), -1e300)
    e = np.exp(logits - logits.max(-1, keepdims=True)) * mask
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total) @ value


def random_mask(*shape):
    """Hides all from the first query, or where all queries share a mask, in the first row."""
    mask = np.random.default_rng(3).random(shape) < 0.6
    mask[(..., 0, slice(None)) if shape[-2] > 1 else 0] = False
    return mask


def attend(arrays, **arguments):
    found = scaled_dot_product_attention(*arrays, **arguments)
    return ops.convert_to_numpy(ops.cast(found, "float32"))


MASKS = [None, (2, 1, 1, 13), (10, 13), (13,), (2, 3, 10, 13), (1, 3, 10, 1)]


@pytest.mark.parametrize("shape", MASKS, ids=str)
def test_any_mask(small_blocks, shape):
    arrays = arrays_of()
    mask = (
        None if shape is None else random_mask(*shape) if len(shape) > 1 else np.arange(13) % 3 > 0
    )
    found = attend(arrays, mask=mask)
    np.testing.assert_allclose(
        found, reference(*arrays, True if mask is None else mask), 1e-5, 1e-6
    )


LEADING = [
    ((), (10, 13), None),
    ((2,), (2, 1, 13), "start"),
    ((2, 3, 2), (2, 1, 2, 1, 13), None),
    ((2, 3, 2), (3, 1, 10, 13), "start"),
    ((2, 3, 2), (1, 1, 1, 10, 13), None),
    ((2, 3, 2), None, "start"),
]


@pytest.mark.parametrize(
    "leading, shape, causal",
    quick(
        [(*axes, causal) for *axes, _ in LEADING for causal in (None, "start")],
        *LEADING,
    ),
    ids=str,
)
def test_any_number_of_leading_axes(small_blocks, leading, shape, causal):
    arrays = arrays_of(leading)
    mask = None if shape is None else random_mask(*shape)
    seen = True if mask is None else mask
    if causal:
        seen = seen & ops.convert_to_numpy(causal_mask(10, 13, align=causal))
    found = attend(arrays, mask=mask, causal=causal)
    np.testing.assert_allclose(found, reference(*arrays, seen), 1e-5, 1e-6)


def test_a_query_that_sees_nothing_gives_0(small_blocks):
    mask = random_mask(2, 3, 10, 13)
    found = attend(arrays_of(), mask=mask, query_mask=np.arange(10) != 5)
    assert (found[:, :, [0, 5]] == 0).all() and (found[:, :, 1:5] != 0).all()
    found = attend(arrays_of((2,), 13, 10), causal="end")
    assert (found[:, :3] == 0).all() and (found[:, 3:] != 0).all()


LENGTHS = [(12, 12), (3, 13), (13, 3), (1, 20), (20, 1), (5, 6)]


@pytest.mark.parametrize(
    "lengths, align",
    quick(
        list(itertools.product(LENGTHS, ("start", "end"))),
        ((12, 12), "end"),
        ((3, 13), "start"),
        ((3, 13), "end"),
        ((13, 3), "start"),
        ((13, 3), "end"),
        ((1, 20), "end"),
        ((20, 1), "start"),
    ),
    ids=str,
)
def test_causal_of_any_lengths(small_blocks, align, lengths):
    arrays = arrays_of((2,), *lengths)
    mask = ops.convert_to_numpy(causal_mask(*lengths, align=align))
    found = attend(arrays, causal=align)
    np.testing.assert_allclose(found, reference(*arrays, mask), 1e-5, 1e-6)


@pytest.mark.parametrize(
    "shape, causal",
    quick(
        list(itertools.product(MASKS[:3], (None, "start", "end"))),
        (MASKS[0], "end"),
        (MASKS[1], None),
        (MASKS[2], "start"),
    ),
    ids=str,
)
def test_gradients_are_those_of_the_plain_way(small_blocks, plainly, shape, causal):
    arrays, weights = arrays_of(), normal(2, 3, 10, 7, seed=4)
    mask = None if shape is None else random_mask(*shape)
    query_mask = np.arange(10) != 5

    def loss(tensors):
        found = scaled_dot_product_attention(
            *tensors, mask=mask, causal=causal, query_mask=query_mask
        )
        return ops.sum(found * ops.convert_to_tensor(weights))

    found = gradients(loss, arrays)
    plainly()
    for one, other in zip(found, gradients(loss, arrays), strict=True):
        assert np.isfinite(one).all()
        np.testing.assert_allclose(one, other, 1e-4, 1e-5)


def test_compiled_with_xla_and_large_logits(small_blocks):
    arrays = [100 * x for x in arrays_of((1,))[:2]] + [arrays_of((1,))[2]]
    found = compiled(lambda *tensors: scaled_dot_product_attention(*tensors, causal="end"))(
        *map(ops.convert_to_tensor, arrays)
    )
    mask = ops.convert_to_numpy(causal_mask(10, 13))
    np.testing.assert_allclose(ops.convert_to_numpy(found), reference(*arrays, mask), 1e-4, 1e-4)


@pytest.mark.skipif(BACKEND == "torch", reason="no XLA there")
def test_the_gradient_compiles_with_xla(small_blocks):
    mask = random_mask(2, 1, 1, 13)

    def attended(*tensors):
        return ops.sum(scaled_dot_product_attention(*tensors, mask=mask, causal="end"))

    def differentiate(*tensors):
        if BACKEND == "jax":
            import jax

            return jax.grad(attended, (0, 1, 2))(*tensors)
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(tensors)
            found = attended(*tensors)
        return tape.gradient(found, tensors)

    arrays = [ops.convert_to_tensor(x) for x in arrays_of()]
    for one, other in zip(compiled(differentiate)(*arrays), differentiate(*arrays), strict=True):
        np.testing.assert_allclose(one, other, 1e-4, 1e-5)


@pytest.mark.parametrize("dtype", quick(["bfloat16", "float16"], "float16"))
def test_half_precision(small_blocks, dtype):
    arrays = arrays_of()

    def half(tensors):
        return scaled_dot_product_attention(*(ops.cast(x, dtype) for x in tensors), causal="start")

    found = half(arrays)
    assert keras.backend.standardize_dtype(found.dtype) == dtype
    mask = ops.convert_to_numpy(causal_mask(10, 13, align="start"))
    np.testing.assert_allclose(
        ops.convert_to_numpy(ops.cast(found, "float32")), reference(*arrays, mask), 0.05, 0.05
    )
    exact = gradients(lambda x: ops.sum(scaled_dot_product_attention(*x, causal="start")), arrays)
    found = gradients(lambda x: ops.sum(ops.cast(half(x), "float32")), arrays)
    for one, other in zip(found, exact, strict=True):
        np.testing.assert_allclose(one, other, 0.1, 0.1)


def test_a_query_whose_last_axis_is_not_dense(small_blocks):
    query, key, value = arrays_of()
    turned = ops.swapaxes(ops.convert_to_tensor(query.swapaxes(-1, -2).copy()), -1, -2)
    found = attend((turned, key, value))
    np.testing.assert_allclose(found, reference(query, key, value), 1e-5, 1e-6)


def test_multi_head_attention_is_that_of_the_plain_way(small_blocks, plainly):
    inputs = {"query": normal(2, 10, 6), "value": normal(2, 13, 6, seed=1)}
    given = {"value_mask": np.arange(13)[None] < np.array([[13], [7]]), "use_causal_mask": True}
    layer = MultiHeadAttention(2, 5, 7, fused="kv")
    randomize(layer, inputs, given)
    outputs, found = [], []
    for _ in range(2):
        outputs.append(run(layer, inputs, given))
        found.append(layer_gradients(layer, inputs, given, normal(2, 10, 6, seed=2)))
        plainly()
    np.testing.assert_allclose(*outputs, 1e-5, 1e-5)
    for one, other in zip(*found, strict=True):
        for name in one:
            np.testing.assert_allclose(one[name], other[name], 1e-4, 1e-5, err_msg=name)


def test_a_long_symbolic_input():
    x = keras.Input((4096, 6))
    assert MultiHeadAttention(2, 5)(x, x, use_causal_mask=True).shape == (None, 4096, 6)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="shapes of others are known")
def test_a_mask_of_unknown_shape(small_blocks):
    import tensorflow as tf

    arrays = [
        np.random.default_rng(i).normal(size=(2, 3, 10, 5)).astype("float32") for i in range(3)
    ]
    mask = random_mask(2, 1, 10, 10)

    @tf.function(input_signature=[tf.TensorSpec([None] * 4, tf.bool)])
    def found(mask):
        return scaled_dot_product_attention(*arrays, mask=mask)

    np.testing.assert_allclose(found(mask), reference(*arrays, mask), atol=1e-5)


STEPS = {
    "tensorflow": """
import tensorflow as tf
x = [tf.random.normal((1, 2, {length}, 32)) for _ in range(3)]
def differentiate(*x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(scaled_dot_product_attention(*x, **arguments) ** 2)
    return tape.gradient(loss, x)
in_a_graph = tf.function(differentiate)
def step(*x):
    in_a_graph(*x)
    differentiate(*x)
""",
    "jax": """
import jax
x = [jax.random.normal(jax.random.key(i), (1, 2, {length}, 32)) for i in range(3)]
@jax.jit
def differentiate(*x):
    return jax.grad(
        lambda x: (scaled_dot_product_attention(*x, **arguments) ** 2).sum())(x)
def step(*x):
    jax.block_until_ready(differentiate(*x))
""",
    "torch": """
import torch
x = [torch.randn(1, 2, {length}, 32) for i in range(3)]
def step(*x):
    x = [t.requires_grad_() for t in x]
    (scaled_dot_product_attention(*x, **arguments) ** 2).sum().backward()
""",
}


@pytest.mark.thorough
def test_no_more_than_blocks_exist_at_a_time():
    """The peak memory of one process that attends forward and back over 4,096 tokens.

    On TensorFlow in a graph, then outside of graphs.
    """
    import subprocess
    import sys

    code = (
        """
import resource
import numpy as np
from keras_attn.ops import scaled_dot_product_attention
arguments = {{}}
"""
        + STEPS[BACKEND]
        + """
step(*[t[:, :, :2048] for t in x])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
step(*x)
if {masked}:
    arguments = dict(causal="end", mask=np.arange(4096)[None, None, None] < 4000)
    step(*x)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
    )
    masked = BACKEND == "torch"  # the only one that then works in another way
    done = subprocess.run(
        [sys.executable, "-c", code.format(length=4096, masked=masked)],
        capture_output=True,
        text=True,
        check=True,
    )
    # The weights alone would take 128 MB.
    assert float(done.stdout) < 60, done.stdout
