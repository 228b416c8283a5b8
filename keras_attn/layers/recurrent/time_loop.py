"""Weights and random seeds inside a loop over time steps."""

import keras
from keras import ops

MAX_DRAWS_PER_STEP = 16  # random tensors drawn by a layer in one step


def without_weight_gradients(layer):
    """Scope in which the weights of a layer get no gradient."""
    return keras.StatelessScope(
        [(variable, ops.stop_gradient(variable.value)) for variable in layer.variables]
    )


def step_seeds(layer, index):
    """Scope in which a layer uses the random seeds of step `index`.

    JAX cannot update seed variables inside a loop, so they are computed from the index.
    """
    return keras.StatelessScope(
        [
            (variable, _advanced(variable, index) if _is_seed(variable) else variable.value)
            for variable in layer.variables
        ]
    )


def advance_seeds(layer, steps):
    """Advances the seeds of a layer by a number of steps."""
    for variable in filter(_is_seed, layer.variables):
        variable.assign(_advanced(variable, steps))


def _advanced(variable, steps):
    drawn = ops.stack([0, ops.cast(steps, "int32") * MAX_DRAWS_PER_STEP])
    return variable.value + ops.cast(drawn, variable.dtype)


def _is_seed(variable):
    return variable.path.endswith("seed_generator_state")
