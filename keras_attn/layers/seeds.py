"""Derivation of independent seeds for all random parts of a layer from its `seed` argument."""

import contextlib
import contextvars

import keras
import numpy as np
from keras import ops

from keras_attn.ops.arguments import require_integers
from keras_attn.ops.dropout import dropout

HALF = "float16", "bfloat16"

_OVERRIDE = contextvars.ContextVar("override", default=None)


def split_seed(seed, number, stream=0):
    """Derives independent seeds from one.

    Args:
        seed: Integer, or None.
        number: Number of seeds.
        stream: Different streams give different seeds.

    Returns:
        List of `number` integers, or of None if the seed is None.
    """
    require_integers(optional=True, seed=seed)
    if seed is None:
        return [None] * number
    state = np.random.SeedSequence((abs(int(seed)), stream)).generate_state(number)
    return [int(s) & 0x7FFFFFFF for s in state]


def seeded_initializer(initializer, seed):
    """Copies an initializer with a separate seed; half-precision values are drawn in float32.

    An initializer instance returns the same values for every weight of the same shape, so each
    weight needs a copy.

    Args:
        initializer: Name, config or instance.
        seed: Seed of the copy unless the initializer has one; None draws one.
    """
    initializer = keras.initializers.get(initializer)
    if not isinstance(initializer, keras.initializers.Initializer):
        return _OVERRIDE.get() or initializer
    config = initializer.get_config()
    if config.get("seed", 0) is None:
        config["seed"] = seed
    return _Seeded(type(initializer).from_config(config))


@keras.saving.register_keras_serializable("keras_attn")
class _Seeded(keras.initializers.Initializer):
    """Draws in float32 for half precision; `override_initializers` replaces it."""

    def __init__(self, initializer):
        self.initializer = keras.initializers.get(initializer)

    def __call__(self, shape, dtype=None):
        if instead := _OVERRIDE.get():
            return instead(shape, dtype=dtype)
        # The QR decomposition of orthogonal initializers does not support bfloat16.
        half = dtype is not None and keras.backend.standardize_dtype(dtype) in HALF
        drawn = self.initializer(shape, dtype="float32" if half else dtype)
        return ops.cast(drawn, dtype) if half else drawn

    def get_config(self):
        return {"initializer": keras.initializers.serialize(self.initializer)}


@contextlib.contextmanager
def override_initializers(initializer):
    """Scope in which all weights use this initializer because they will be overwritten."""
    token = _OVERRIDE.set(initializer)
    try:
        yield
    finally:
        _OVERRIDE.reset(token)


def dropout_generator(rate, seed, name):
    """Creates the seed generator of `drop`, with a variable path independent of other layers.

    Returns:
        `keras.random.SeedGenerator`, or None if the rate is 0.
    """
    return keras.random.SeedGenerator(seed, name=name) if rate else None


def drop(x, rate, generator, training):
    """Applies dropout in training; returns x unchanged if the rate is 0."""
    return dropout(x, rate, generator) if rate and training else x
