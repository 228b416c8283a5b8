"""How one `seed=` reaches every random part of a layer."""

import contextlib
import contextvars

import keras
import numpy as np
from keras import ops

from keras_attn.ops.arguments import require_integers
from keras_attn.ops.dropout import dropout

HALF = "float16", "bfloat16"

_OVERRIDE = contextvars.ContextVar("instead", default=None)


def split_seed(seed, number, stream=0):
    """Independent seeds from one.

    Args:
        seed: Integer, or None.
        number: How many.
        stream: Another one gives other seeds.

    Returns:
        List of `number` integers; of None if the seed is None.
    """
    require_integers(optional=True, seed=seed)
    if seed is None:
        return [None] * number
    state = np.random.SeedSequence((abs(int(seed)), stream)).generate_state(number)
    return [int(s) & 0x7FFFFFFF for s in state]


def seeded_initializer(initializer, seed):
    """Copy of an initializer with a seed of its own, that draws in float32 for half precision.

    One initializer used for two weights of one shape gives them the same
    values, so every weight needs a copy.

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
        # No QR decomposition, which orthogonal ones take, knows bfloat16.
        half = dtype is not None and keras.backend.standardize_dtype(dtype) in HALF
        drawn = self.initializer(shape, dtype="float32" if half else dtype)
        return ops.cast(drawn, dtype) if half else drawn

    def get_config(self):
        return {"initializer": keras.initializers.serialize(self.initializer)}


@contextlib.contextmanager
def override_initializers(initializer):
    """Whatever is built inside takes this one: its weights are about to be set."""
    token = _OVERRIDE.set(initializer)
    try:
        yield
    finally:
        _OVERRIDE.reset(token)


def dropout_generator(rate, seed, name):
    """Seed generator for `drop`, with a variable path that does not depend on other layers.

    Returns:
        `keras.random.SeedGenerator`, or None if nothing is ever dropped.
    """
    return keras.random.SeedGenerator(seed, name=name) if rate else None


def drop(x, rate, generator, training):
    """Dropout in training; free where the rate is 0."""
    return dropout(x, rate, generator) if rate and training else x
