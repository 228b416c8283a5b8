"""The loop of decoding."""

import contextlib

import keras
from keras import ops


def decode_while(goes_on, body, state):
    """`keras.ops.while_loop`, without the record that PyTorch keeps for gradients."""
    with _no_record():
        return ops.while_loop(goes_on, body, state)


def _no_record():
    if keras.backend.backend() != "torch":
        return contextlib.nullcontext()
    import torch

    return torch.no_grad()
