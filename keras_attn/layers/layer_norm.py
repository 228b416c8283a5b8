"""Layer normalization."""

import functools

import keras
from keras import ops

from keras_attn.ops import kernels

_KERNELS = kernels.of_backend("tensorflow")


class LayerNorm(keras.layers.LayerNormalization):
    """Keras's layer normalization of the last axis, XLA-compiled on TensorFlow if large."""

    def call(self, inputs):
        if _KERNELS is None:
            return super().call(inputs)
        weights = [w for w in (self.gamma, self.beta) if w is not None]
        return _compiled(self.epsilon)(inputs, *map(ops.convert_to_tensor, weights))


@functools.cache
def _compiled(epsilon):
    return _KERNELS.graphs.compiled(functools.partial(_norm, epsilon))


def _norm(epsilon, x, gamma, beta=None):
    return ops.layer_normalization(x, gamma, beta, epsilon=epsilon)
