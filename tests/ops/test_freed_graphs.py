"""What is traced again and again, as by many runs in a process, leaves nothing behind."""

import gc
import weakref

import keras
import pytest

from keras_attn.layers.layer_norm import LayerNorm
from keras_attn.ops import (
    linear_cross_entropy,
    scaled_dot_product_attention,
    sparse_cross_entropy,
)
from keras_attn.ops.activations import get_activation
from tests.support.quick import quick

pytestmark = pytest.mark.skipif(
    keras.config.backend() != "tensorflow", reason="graphs are TensorFlow's"
)
tf = pytest.importorskip("tensorflow")


def _losses(x):
    return sparse_cross_entropy(tf.zeros(512, tf.int32), x, 0.1)


def _losses_in_blocks(x):
    return linear_cross_entropy(tf.zeros(512, tf.int32), x, x[:64], most=1 << 13)[0]


def _attention(x):
    return scaled_dot_product_attention(x, x, x)


def _layer_norm():
    layer = LayerNorm()
    layer.build((512, 2048))
    return layer


FUNCTIONS = {
    "cross_entropy": _losses,
    "cross_entropy_of_a_vocabulary": _losses_in_blocks,
    "attention": _attention,
    "gelu": get_activation("gelu_tanh"),
    "layer_norm": _layer_norm(),
}


@pytest.mark.parametrize(
    "name, jit",
    quick(
        [(name, jit) for name in FUNCTIONS for jit in (False, True)],
        ("cross_entropy_of_a_vocabulary", False),
        ("attention", False),
        ("layer_norm", True),
    ),
)
def test_the_graph_of_a_step_is_freed(name, jit):
    x = tf.random.stateless_normal((1, 4, 4096, 2) if name == "attention" else (512, 2048), (0, 0))
    gradients, graphs = [], []
    for _ in range(2):

        @tf.function(jit_compile=jit, autograph=False)
        def step(x):
            return tf.gradients(FUNCTIONS[name](x), x)[0]

        concrete = step.get_concrete_function(x)
        gradients.append(concrete(x))
        graphs.append(weakref.ref(concrete.graph))
        del step, concrete
    gc.collect()
    assert [graph() for graph in graphs] == [None, None]
    assert tf.reduce_any(gradients[0] != 0) and tf.reduce_all(gradients[0] == gradients[1])
