"""Recurrent layers whose padding may lie anywhere."""

import keras
from keras import ops

from keras_attn.layers.seeds import seeded_initializer, split_seed
from keras_attn.ops.sizes import at_least


def run_rnn(rnn, x, mask=None, initial_state=None, **arguments):
    """Calls a recurrent layer that returns its sequence and states, also for no step or no row.

    Without a step the states stay the first ones.

    Args:
        rnn: Layer of Keras.
        x: `(B, T, D)`.
        mask: Boolean `(B, T)`, or None.
        initial_state: Nest of `(B, ...)`, or None.
        **arguments: Others of the call.

    Returns:
        List of the outputs `(B, T, ...)` and the last states.
    """
    length = ops.shape(x)[1]
    padded = pad_empty_axis(x)
    if padded is not x:
        mask = pad_empty_axis(ops.ones(ops.shape(x)[:2], "bool") if mask is None else mask)
    outputs, *states = with_nonempty_batch(
        lambda x, mask, first: rnn(x, mask=mask, initial_state=first, **arguments),
        padded, mask, initial_state)
    return [outputs if padded is x else outputs[:, :length], *states]


def pad_empty_axis(x, axis=1):
    """A tensor with an entry of zeros along an axis where there is none, as loops need a step.

    The tensor itself is returned if its size is known not to be 0.
    """
    size = ops.shape(x)[axis]
    missing = at_least(size, 1) - size
    if isinstance(missing, int) and not missing:
        return x
    return ops.pad(x, [(0, missing if i == axis else 0) for i in range(len(x.shape))])


def with_nonempty_batch(function, *arguments):
    """Calls a function also where its batch is known to be of no row, which LSTMs of Keras are not.

    Args:
        function: Of these arguments, to a nest of `(B, ...)`.
        *arguments: Nests of `(B, ...)` and None.
    """
    if all(x is None or x.shape[0] != 0 for x in keras.tree.flatten(arguments)):
        return function(*arguments)
    arguments = keras.tree.map_structure(
        lambda x: None if x is None else ops.pad(x, [(0, 1), *[(0, 0)] * (len(x.shape) - 1)]),
        arguments)
    return keras.tree.map_structure(lambda x: x[:0], function(*arguments))


def add_embedding(layer, name, words, depth, seed):
    """A weight of a layer, `(words, depth)`: what a recurrent model reads words as.

    From a normal distribution of deviation 1: few steps move a rare word, so words that differ
    from the first are learned from sooner than Keras's of ± 0.05.
    """
    return layer.add_weight(
        name=name, shape=(words, depth), autocast=False,
        initializer=seeded_initializer(keras.initializers.RandomNormal(stddev=1.0), seed))


def recurrent(kind, units, seed, **kwargs):
    """A Keras `LSTM` or `GRU` that returns all its outputs, 0 at padding, and its last state.

    A row with no step keeps its first state.

    Args:
        kind: `keras.layers.LSTM` or `GRU`.
        units: Depth of the output.
        seed: Integer for initial weights.
        **kwargs: Other arguments of the layer.
    """
    kernel_seed, recurrent_seed = split_seed(seed, 2)
    # cuDNN fails at rows with no step and at padding on the left, and XLA does not compile it.
    return kind(
        units, kernel_initializer=seeded_initializer("glorot_uniform", kernel_seed),
        recurrent_initializer=seeded_initializer("orthogonal", recurrent_seed),
        return_sequences=True, return_state=True, zero_output_for_mask=True, use_cudnn=False,
        **kwargs)


def bidirectional(kind, units, seed, dtype, name, **kwargs):
    """`recurrent` in both directions side by side, of depth `2 units`, each with its own seed."""
    forward_seed, backward_seed = split_seed(seed, 2)
    return keras.layers.Bidirectional(
        recurrent(kind, units, forward_seed, dtype=dtype, name="forward", **kwargs),
        backward_layer=recurrent(kind, units, backward_seed, dtype=dtype, name="backward",
                                 go_backwards=True, **kwargs),
        dtype=dtype, name=name)
