"""Small soft attention layers by each score, and inputs with padding."""

import numpy as np

from keras_attn.layers import Attention, LocationScore
from tests.support.numpy_attention import normal

NAMES = ["dot", "scaled_dot", "bilinear", "general", "cosine", "concat", "additive"]
SCORES = [*NAMES, "location"]
MASK = np.array([[1, 1, 0, 1], [1, 0, 0, 0]])


def make(score="scaled_dot", **kwargs):
    dtype = kwargs.get("dtype")
    if score == "location":
        score = LocationScore(9, seed=1, name="score", dtype=dtype)
    units = 6 if score in ("concat", "additive") else None
    return Attention(score, units, **{"seed": 1, **kwargs})


def inputs_of(query_depth=5, value_depth=5):
    return {
        "query": normal(2, 3, query_depth),
        "value": normal(2, 4, value_depth, seed=1),
        "value_mask": MASK,
    }
