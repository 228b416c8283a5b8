"""How functions with matrix products are called so that they are fast."""

import math

import keras
from keras import ops

from keras_attn.ops import kernels

_KERNELS = kernels.of_backend("jax")
MAX_ROWS = 16  # rows; see `linear_transposed`


def apply_rowwise(function, x):
    """Calls a function of `(R, D)` with `(..., D)`.

    On a GPU, XLA lays out arrays of three dimensions as it likes, and turns them between layers.

    Args:
        function: Of `(R, D)`, to `(R, E)`.
        x: `(..., D)`.

    Returns:
        `(..., E)`.
    """
    if len(x.shape) == 2:
        return function(x)
    *outer, depth = ops.shape(x)
    rows = -1 if isinstance(depth, int) and depth else math.prod(outer)
    y = function(ops.reshape(x, (rows, depth)))
    return ops.reshape(y, (*outer, ops.shape(y)[-1]))


def linear(x, kernel, bias=None):
    """`x @ kernel + bias`, by rows.

    `ops.matmul` must not be used for this product where x has more than two axes. Of three, Keras
    makes a `tf.tensordot`, whose gradient XLA does not compile inside a loop where the batch size
    is unknown; of four, TensorFlow writes past the end of `(B, 1, T, E)` where it multiplies
    `(B, 1, T, D)` by one matrix (2.19 and 2.21, oneDNN).

    Args:
        x: `(..., D)`.
        kernel: `(D, E)`.
        bias: None or `(E,)`.

    Returns:
        `(..., E)`.

    Raises:
        ValueError: If x has another depth than the kernel.
    """
    depth, expected = x.shape[-1], kernel.shape[0]
    if isinstance(depth, int) and isinstance(expected, int) and depth != expected:
        raise ValueError(f"The last axis must have {expected} entries, as when the layer was "
                         f"built. Received: a tensor of shape {tuple(x.shape)}")

    def product(rows):
        rows = ops.matmul(rows, kernel)
        return rows if bias is None else ops.add(rows, bias)

    return apply_rowwise(product, x)


def linear_transposed(x, weights):
    """`x @ weights^T` without a transposed copy of the weights, for `MAX_ROWS` rows at most.

    As the first factor TensorFlow reads the weights up to twice as fast; elsewhere it is the same.

    Args:
        x: `(R, D)`.
        weights: `(E, D)`.

    Returns:
        `(R, E)`.
    """
    return ops.transpose(ops.matmul(weights, ops.transpose(x)))


def upcast_float16(*tensors):
    """Those of float16 in float32: their product may pass 65,504, where float16 ends."""
    return [ops.cast(x, "float32") if keras.backend.standardize_dtype(x.dtype) == "float16" else x
            for x in tensors]


def remat_except_matmuls(function):
    """The function; on JAX its gradient keeps results of products alone, and computes the rest."""
    return function if _KERNELS is None else _KERNELS.remat_except_matmuls(function)
