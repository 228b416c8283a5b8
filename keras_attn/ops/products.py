"""Efficient calls of functions with matrix products."""

import math

import keras
from keras import ops

from keras_attn.ops import kernels

_KERNELS = kernels.of_backend("jax")
MAX_ROWS = 16  # see `linear_transposed`


def apply_rowwise(function, x):
    """Applies a function of `(R, D)` to `(..., D)`.

    On a GPU, XLA chooses the layout of three-dimensional arrays freely and transposes them between
    layers.

    Args:
        function: Maps `(R, D)` to `(R, E)`.
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
    """`x @ kernel + bias`, applied to rows.

    Do not use `ops.matmul` for this product if x has more than two axes. For three axes, Keras
    calls `tf.tensordot`, whose gradient XLA cannot compile inside a loop with unknown batch size;
    for four, TensorFlow writes out of bounds when it multiplies `(B, 1, T, D)` by a single matrix
    (2.19 and 2.21, oneDNN).

    Args:
        x: `(..., D)`.
        kernel: `(D, E)`.
        bias: None or `(E,)`.

    Returns:
        `(..., E)`.

    Raises:
        ValueError: If the depths of x and the kernel differ.
    """
    depth, expected = x.shape[-1], kernel.shape[0]
    if isinstance(depth, int) and isinstance(expected, int) and depth != expected:
        raise ValueError(
            f"The last axis must have {expected} entries, the depth that the layer "
            f"was built for. Received: a tensor of shape {tuple(x.shape)}"
        )

    def product(rows):
        rows = ops.matmul(rows, kernel)
        return rows if bias is None else ops.add(rows, bias)

    return apply_rowwise(product, x)


def linear_transposed(x, weights):
    """`x @ weights^T` without a transposed copy of the weights, for at most `MAX_ROWS` rows.

    TensorFlow reads the weights up to twice as fast when they are the first factor; other backends
    show no difference.

    Args:
        x: `(R, D)`.
        weights: `(E, D)`.

    Returns:
        `(R, E)`.
    """
    return ops.transpose(ops.matmul(weights, ops.transpose(x)))


def upcast_float16(*tensors):
    """Casts float16 tensors to float32: their product may exceed 65,504, the float16 maximum."""
    return [
        ops.cast(x, "float32") if keras.backend.standardize_dtype(x.dtype) == "float16" else x
        for x in tensors
    ]


def remat_except_matmuls(function):
    """On JAX, the gradient of the function stores matrix products only and recomputes the rest."""
    return function if _KERNELS is None else _KERNELS.remat_except_matmuls(function)
