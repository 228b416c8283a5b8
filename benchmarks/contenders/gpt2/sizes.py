"""Sizes and inputs of all libraries."""

import numpy as np

VOCABULARY, POSITIONS, END = 50257, 1024, 50256


def random_ids(rows, length, seed=0):
    """Returns random ids, int32 `(rows, length)`, without the end-of-text token."""
    return np.random.default_rng(seed).integers(0, END, (rows, length), dtype=np.int32)
