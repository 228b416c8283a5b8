"""The loop of decoding."""

import contextlib

import keras
from keras import ops

from keras_attn.ops import kernels

_KERNELS = kernels.of_backend("tensorflow")


def decode_while(goes_on, body, state):
    """`keras.ops.while_loop`, without the record that PyTorch keeps for gradients."""
    with _no_record():
        return ops.while_loop(goes_on, body, state)


def in_few_passes(function, logits, *others):
    """`function(logits, *others)`, on TensorFlow compiled where that pays.

    Each of its operations alone would read and write the whole vocabulary.
    """
    if _KERNELS is None:
        return function(logits, *others)
    return _KERNELS.graphs.compile_if_large(function, logits, *others)


def _no_record():
    if keras.backend.backend() != "torch":
        return contextlib.nullcontext()
    import torch

    return torch.no_grad()
