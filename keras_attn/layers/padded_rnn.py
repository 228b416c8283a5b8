"""Recurrent layers for inputs with padding at any position."""

import weakref

import keras
from keras import ops

from keras_attn.layers.seeds import seeded_initializer, split_seed
from keras_attn.ops.time_loop import pad_empty_axis

# The layer that a `Bidirectional` has copied by its config. If it were freed while Keras loads a
# model, Keras could take a new object with the same id for one that it has already created.
_COPIED: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def run_rnn(rnn, x, mask=None, initial_state=None, **arguments):
    """Calls a recurrent layer that returns sequences and states; the batch or the length may be 0.

    With no steps, the initial states are returned.

    Args:
        rnn: A Keras recurrent layer.
        x: `(B, T, D)`.
        mask: Boolean `(B, T)`, or None.
        initial_state: Nest of `(B, ...)`, or None.
        **arguments: Further arguments of the call.

    Returns:
        List of the outputs `(B, T, ...)` and the last states.
    """
    length = ops.shape(x)[1]
    padded = pad_empty_axis(x)
    if padded is not x:
        mask = pad_empty_axis(ops.ones(ops.shape(x)[:2], "bool") if mask is None else mask)
    outputs, *states = with_nonempty_batch(
        lambda x, mask, first: rnn(x, mask=mask, initial_state=first, **arguments),
        padded,
        mask,
        initial_state,
    )
    return [outputs if padded is x else outputs[:, :length], *states]


def with_nonempty_batch(function, *arguments):
    """Calls a function with at least one row; LSTMs of Keras fail on an empty batch.

    Args:
        function: Called with the arguments; returns a nest of `(B, ...)`.
        *arguments: Nests of `(B, ...)` and None.
    """
    if all(x is None or x.shape[0] != 0 for x in keras.tree.flatten(arguments)):
        return function(*arguments)
    arguments = keras.tree.map_structure(
        lambda x: None if x is None else ops.pad(x, [(0, 1), *[(0, 0)] * (len(x.shape) - 1)]),
        arguments,
    )
    return keras.tree.map_structure(lambda x: x[:0], function(*arguments))


def add_embedding(layer, name, words, depth, seed, stddev=1.0):
    """Adds a token embedding matrix `(words, depth)` of a recurrent model to a layer.

    It is drawn from a normal distribution. The default standard deviation is 1: rare words get few
    updates, so embeddings that differ from the start are learned faster than Keras's default of
    ± 0.05.
    """
    return layer.add_weight(
        name=name,
        shape=(words, depth),
        autocast=False,
        initializer=seeded_initializer(keras.initializers.RandomNormal(stddev=stddev), seed),
    )


def recurrent(kind, units, seed, **kwargs):
    """Creates a Keras `LSTM` or `GRU` that returns all outputs, 0 at padding, and its last state.

    A row without any step keeps its initial state.

    Args:
        kind: `keras.layers.LSTM` or `GRU`.
        units: Depth of the output.
        seed: Integer seed of the initial weights.
        **kwargs: Further arguments of the layer.
    """
    kernel_seed, recurrent_seed = split_seed(seed, 2)
    # cuDNN fails on rows without steps and on left padding, and XLA does not compile it.
    return kind(
        units,
        kernel_initializer=seeded_initializer("glorot_uniform", kernel_seed),
        recurrent_initializer=seeded_initializer("orthogonal", recurrent_seed),
        return_sequences=True,
        return_state=True,
        zero_output_for_mask=True,
        use_cudnn=False,
        **kwargs,
    )


def bidirectional(kind, units, seed, dtype, name, **kwargs):
    """`recurrent` in both directions, with outputs of size `2 units` and a seed per direction."""
    forward_seed, backward_seed = split_seed(seed, 2)
    return both_directions(
        recurrent(kind, units, forward_seed, dtype=dtype, name="forward", **kwargs),
        recurrent(
            kind, units, backward_seed, dtype=dtype, name="backward", go_backwards=True, **kwargs
        ),
        dtype=dtype,
        name=name,
    )


def both_directions(forward, backward, **kwargs):
    """Creates a Keras `Bidirectional` of two layers, also while a model is loaded.

    Args:
        forward: Recurrent layer, which is copied.
        backward: Recurrent layer with `go_backwards=True`.
        **kwargs: Further arguments of `Bidirectional`.
    """
    made = keras.layers.Bidirectional(forward, backward_layer=backward, **kwargs)
    _COPIED[made] = forward
    return made
