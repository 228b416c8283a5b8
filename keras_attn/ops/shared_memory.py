"""Arrays whose memory the tensors of the backend take over, so that weights are copied once."""

import math

import numpy as np
from keras import ops

from keras_attn.ops import kernels

_KERNELS = kernels.of_backend("tensorflow")
# TensorFlow and JAX share memory that begins at a multiple of this, and copy other.
_ALIGNMENT = 64


def new_array(shape):
    """Returns an array of float32 without values, whose memory a tensor can share."""
    size = 4 * math.prod(shape)
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(np.float32).reshape(shape)


def as_tensor(array, dtype=None):
    """Returns a tensor that may take over the memory of an array of `new_array`.

    The array must not be used any more.
    """
    if _KERNELS is None:
        return ops.convert_to_tensor(array, dtype)
    tensor = _KERNELS.variables.share_memory(array)
    return tensor if dtype is None else ops.cast(tensor, dtype)
