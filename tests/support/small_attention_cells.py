"""Small recurrent cells with attention, and inputs of their decoder."""

import keras
import numpy as np

from keras_attn.layers import Attention, LuongAttention
from keras_attn.layers.recurrent import AttentionCell, BahdanauDecoderCell, RecurrentDecoder
from tests.support.numpy_attention import normal

V, E, U, D, A = 7, 3, 4, 6, 5
IDS = np.array([[1, 5, 6, 2], [1, 3, 4, 6]], "int32")
MASK = np.array([[1, 1, 0, 1, 1], [0, 1, 0, 0, 0]], "int32")
INPUTS = {"target_ids": IDS, "memory": normal(2, 5, D), "memory_mask": MASK}


def decoder(cell, dtype=None, **kwargs):
    return RecurrentDecoder(cell(dtype), V, E, dtype=dtype, seed=1, name="decoder", **kwargs)


def bahdanau_cell(dtype=None, **kwargs):
    return BahdanauDecoderCell(U, A, 2, seed=2, dtype=dtype, name="cell", **kwargs)


def luong_cell(dtype=None, layers=("lstm",), **kwargs):
    cells = [keras.layers.LSTMCell(U, dtype=dtype, name=name) for name in layers]
    cell = cells[0] if len(cells) == 1 else keras.layers.StackedRNNCells(cells, name="stack")
    return AttentionCell(
        cell,
        LuongAttention(A, seed=3, dtype=dtype, name="luong"),
        dtype=dtype,
        name="cell",
        **kwargs,
    )


def first_cell(dtype=None, layers=("gru",)):
    cells = [keras.layers.GRUCell(U, dtype=dtype, name=name) for name in layers]
    return AttentionCell(
        cells[0] if len(cells) == 1 else keras.layers.StackedRNNCells(cells, name="stack"),
        Attention("additive", A, seed=3, dtype=dtype, name="attention"),
        "attend_first",
        dtype=dtype,
        name="cell",
    )
