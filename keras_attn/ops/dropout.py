"""Dropout with inexpensive random numbers."""

import keras
import numpy as np

from keras_attn.ops import kernels

_INTEGERS = int, np.integer
_KERNELS = kernels.of_backend("tensorflow", "jax")


def dropout(x, rate, seed):
    """Sets a random fraction of the values to 0 and multiplies the others by `1 / (1 - rate)`.

    On TensorFlow and JAX the mask is a hash of the index of each value and the seed: of the same
    quality, and identical on both backends with and without XLA. Drawing random numbers would take
    longer than the layers in between.

    Args:
        x: Floats `(...)`.
        rate: Dropout rate, in [0, 1).
        seed: `keras.random.SeedGenerator`, integer, or None for Keras's global seed generator.

    Returns:
        `(...)` in the dtype of x.
    """
    if _KERNELS is None or seed is None:
        seed = int(seed) & 0xFFFFFFFF if isinstance(seed, _INTEGERS) else seed
        return keras.random.dropout(x, rate, seed=seed)
    return _KERNELS.dropout(x, rate, hash_key(seed))


def hash_key(seed):
    """Two 32-bit integers from a `SeedGenerator` or an integer."""
    if isinstance(seed, _INTEGERS):
        return np.array((int(seed) & 0xFFFFFFFF, 0), "uint32")
    return seed.next()
