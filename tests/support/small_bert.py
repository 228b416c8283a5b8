"""A small BERT and batches for it."""

import numpy as np
from keras import ops

from keras_attn.models import BertEncoder

VOCABULARY, LENGTH = 50, 12


def encoder(**kwargs):
    defaults = {"dropout": 0.0, "max_length": 32, "seed": 1, "initializer_range": 0.2}
    return BertEncoder(VOCABULARY, 2, 16, 2, **{**defaults, **kwargs})


def make_batch(rows=8, seed=0, length=LENGTH, places=3):
    random = np.random.default_rng(seed)
    lengths = random.integers(places + 2, length + 1, rows)
    real = np.arange(length) < lengths[:, None]
    return {
        "token_ids": np.where(real, random.integers(5, VOCABULARY, (rows, length)), 0).astype(
            "int32"
        ),
        "segment_ids": (np.arange(length) >= lengths[:, None] // 2).astype("int32") * real,
        "padding_mask": real.astype("int32"),
        "mask_positions": np.tile(np.arange(1, places + 1, dtype="int32"), (rows, 1)),
        "mask_ids": random.integers(5, VOCABULARY, (rows, places)).astype("int32"),
        "mask_weights": (np.arange(places) < random.integers(1, places + 1, (rows, 1))).astype(
            "float32"
        ),
        "next_sentence_label": random.integers(0, 2, rows).astype("int32"),
        "label": random.integers(0, 3, rows).astype("int32"),
    }


def numpy(tensor):
    return ops.convert_to_numpy(ops.cast(tensor, "float32"))
