"""Recurrent layers whose padding may lie anywhere."""

import keras
from keras import ops

from keras_attn.layers.seeds import seeded_initializer, split_seed


def over_steps(rnn, x, mask=None, **arguments):
    """Calls a recurrent layer that returns its sequence and states, also for no step at all.

    Loops of Keras need a step, so a masked one stands in: the states stay the first ones.

    Args:
        rnn: Layer of Keras.
        x: `(B, T, D)`.
        mask: Boolean `(B, T)`, or None.
        **arguments: Others of the call.
    """
    if x.shape[1] != 0:
        return rnn(x, mask=mask, **arguments)
    batch, _, depth = ops.shape(x)
    outputs, *states = rnn(ops.zeros((batch, 1, depth), x.dtype),
                           mask=ops.zeros((batch, 1), "bool"), **arguments)
    return [outputs[:, :0], *states]


def word_table(layer, name, words, depth, seed):
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
