"""Inference of a model as one compiled program of JAX."""

import functools

import jax
import keras
import numpy as np

_ARRAYS = np.ndarray, np.generic, jax.Array


def inference_function(function, model, reduce_retracing=False):
    """As `keras_attn.ops.inference.inference_function`."""

    # The weights are arguments: as constants each program would hold a copy of them.
    @functools.partial(jax.jit, static_argnums=(0, 1))
    def compiled(structure, constants, arrays, weights):
        arrays = iter(arrays)
        leaves = [next(arrays) if constant is _ARRAYS else constant for constant in constants]
        args, kwargs = jax.tree.unflatten(structure, leaves)
        with keras.StatelessScope(list(zip(model.variables, weights, strict=True))):
            return function(*args, **kwargs)

    @functools.wraps(function)
    def called(*args, **kwargs):
        leaves, structure = jax.tree.flatten((args, kwargs))
        constants = tuple(_ARRAYS if isinstance(leaf, _ARRAYS) else leaf for leaf in leaves)
        arrays = [leaf for leaf in leaves if isinstance(leaf, _ARRAYS)]
        weights = [variable.value for variable in model.variables]
        return compiled(structure, constants, arrays, weights)

    return called
