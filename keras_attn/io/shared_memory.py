"""Arrays whose memory TensorFlow takes over, so that weights are copied once."""

import math

import numpy as np
import tensorflow as tf

# TensorFlow shares memory that begins at a multiple of this, and copies other.
_ALIGNMENT = 64


def new_array(shape):
    """An array of float32 without values, whose memory TensorFlow can share."""
    size = 4 * math.prod(shape)
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start:start + size].view(np.float32).reshape(shape)


def as_tensor(array, dtype=None):
    """A tensor that takes over the memory of an array of `new_array`, which is no longer used."""
    tensor = tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    return tensor if dtype is None else tf.cast(tensor, dtype)
