"""Maxima of tensors that may be empty."""

import keras
from keras import ops

from keras_attn.ops.masks import MASKED


def largest(x, axis, keepdims=False):
    """The maximum of floats along an axis, also of none.

    Keras's `max` refuses an empty tensor without a first value; that it makes on the CPU with
    PyTorch, whose own needs none.
    """
    if keras.config.backend() == "torch":
        return ops.amax(x, axis=axis, keepdims=keepdims)
    return ops.max(x, axis=axis, keepdims=keepdims, initial=MASKED)
