"""Maxima of tensors that may be empty."""

import keras
from keras import ops

from keras_attn.ops.masks import MASKED


def safe_max(x, axis, keepdims=False, initial=MASKED):
    """The maximum along an axis of a tensor that may be empty.

    `ops.max` requires an initial value for an empty tensor. With PyTorch Keras creates that value
    on the CPU, and `amax` requires none unless the axis itself is empty.

    Args:
        x: Tensor.
        axis: Integer.
        keepdims: Whether the axis is kept, with size 1.
        initial: A number that no entry is below.
    """
    if keras.config.backend() == "torch":
        return ops.amax(x, axis=axis, keepdims=keepdims)
    return ops.max(x, axis=axis, keepdims=keepdims, initial=initial)
