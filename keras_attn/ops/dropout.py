"""Dropout whose random numbers cost little."""

import keras
import numpy as np

from keras_attn.ops import kernels

_INTEGERS = int, np.integer
_KERNELS = kernels.of_backend("tensorflow", "jax")


def dropout(x, rate, seed):
    """Sets a share of the values to 0; the others grow by `1 / (1 - rate)`.

    On TensorFlow and JAX the mask is a hash of each value's number and the seed, as good and the
    same on both, with and without XLA, where drawing random numbers takes longer than the layers
    between.

    Args:
        x: Floats `(...)`.
        rate: Share, in [0, 1).
        seed: `keras.random.SeedGenerator`, integer, or None for Keras's global one.

    Returns:
        `(...)` in the dtype of x.
    """
    if _KERNELS is None or seed is None:
        seed = int(seed) & 0xFFFFFFFF if isinstance(seed, _INTEGERS) else seed
        return keras.random.dropout(x, rate, seed=seed)
    return _KERNELS.dropout(x, rate, hash_key(seed))


def hash_key(seed):
    """Two integers of 32 bits from a `SeedGenerator`, or an integer."""
    if isinstance(seed, _INTEGERS):
        return np.array((int(seed) & 0xFFFFFFFF, 0), "uint32")
    return seed.next()
