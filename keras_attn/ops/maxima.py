"""Maxima of tensors that may be empty."""

import keras
from keras import ops

from keras_attn.ops.masks import MASKED


def safe_max(x, axis, keepdims=False, initial=MASKED):
    """Maximum along an axis of a tensor that may be empty.

    `ops.max` requires an initial value for an empty tensor. On PyTorch, Keras would create that
    value on the CPU, and `amax` only requires one if the axis itself is empty.

    Args:
        x: Tensor.
        axis: Integer.
        keepdims: Whether to keep the axis, with size 1.
        initial: Lower bound of all entries.
    """
    if keras.config.backend() == "torch":
        return ops.amax(x, axis=axis, keepdims=keepdims)
    return ops.max(x, axis=axis, keepdims=keepdims, initial=initial)
