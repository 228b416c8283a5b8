"""A loop over time steps, and random seeds inside it."""

import keras
from keras import ops

from keras_attn.layers.padded_rnn import pad_empty_axis

MAX_DRAWS_PER_STEP = 16  # random tensors drawn by a layer in one step


class _Cell:
    """Wraps a function in the cell interface of `keras.layers.RNN`."""

    state_size = 1  # not used: states are passed explicitly

    def __init__(self, step):
        self.call = step

    def __call__(self, x, states):
        return self.call(x, states)


def run_time_loop(step, sequence, states):
    """Calls a function for each time step.

    It uses the loop of `keras.layers.RNN`, which supports several outputs and has gradients on
    every backend, also under XLA (`ops.scan` does not on TensorFlow). Tensors captured by the
    function are not part of the loop state.

    Args:
        step: Function of `(x, states)`, with x `(B, F)`, that returns the outputs, a nest of
            `(B, ...)`, and the new states, with the shapes and dtypes of the old ones.
        sequence: `(B, T, F)`.
        states: Nest of tensors.

    Returns:
        Outputs, a nest of `(B, T, ...)`, and the last states.
    """
    padded = pad_empty_axis(sequence)
    if padded is not sequence:
        length = ops.convert_to_tensor(ops.shape(sequence)[1])
        outputs, last = _run_steps(step, padded, states)
        states = keras.tree.map_structure(
            lambda new, old: ops.where(length > 0, new, old), last, states
        )
        return keras.tree.map_structure(lambda x: x[:, :length], outputs), states
    return _run_steps(step, sequence, states)


def _run_steps(step, sequence, states):
    structure = None

    def flat_step(x, flat):
        nonlocal structure
        outputs, new = step(x, keras.tree.pack_sequence_as(states, list(flat)))
        structure = keras.tree.map_structure(lambda _: 0, outputs)
        # Lists: the loop on JAX does not find the last output in other nests.
        return keras.tree.flatten(outputs), keras.tree.flatten(new)

    loop = keras.layers.RNN(_Cell(flat_step), return_sequences=True, name="time_loop")
    _, outputs, last = loop.inner_loop(sequence, keras.tree.flatten(states), mask=None)
    return (
        keras.tree.pack_sequence_as(structure, list(outputs)),
        keras.tree.pack_sequence_as(states, list(last)),
    )


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
