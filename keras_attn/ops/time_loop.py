"""A loop over time steps."""

import keras
from keras import ops

from keras_attn.ops.sizes import at_least


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


def pad_empty_axis(x, axis=1):
    """Pads an axis of size 0 with one entry of zeros, as loops need at least one step.

    Returns the tensor itself if the size is known not to be 0.
    """
    size = ops.shape(x)[axis]
    missing = at_least(size, 1) - size
    if isinstance(missing, int) and not missing:
        return x
    return ops.pad(x, [(0, missing if i == axis else 0) for i in range(len(x.shape))])
