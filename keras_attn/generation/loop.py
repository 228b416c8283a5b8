"""Helpers for the decoding loop."""

import contextlib

import keras
from keras import ops

from keras_attn.ops import kernels

_KERNELS = kernels.of_backend("tensorflow")


def decode_while(condition, body, state):
    """Runs `keras.ops.while_loop` without recording gradients on PyTorch."""
    with _no_gradients():
        return ops.while_loop(condition, body, state)


def compile_if_large(function, logits, *others):
    """Calls `function(logits, *others)`, compiled on TensorFlow if that pays off.

    Without compilation, each operation reads and writes the whole vocabulary.
    """
    if _KERNELS is None:
        return function(logits, *others)
    return _KERNELS.graphs.compile_if_large(function, logits, *others)


def _no_gradients():
    if keras.backend.backend() != "torch":
        return contextlib.nullcontext()
    import torch

    return torch.no_grad()
