"""Small mixed and expanded-window attention layers, and a padded memory."""

import numpy as np

from keras_attn.layers import ExpandedWindowAttention, MixedAttention
from tests.support.numpy_attention import normal

HEADS, DEPTH = 2, 3
ALIGNMENTS = "monotonic", "predictive"
MASK = np.array([[0, 1, 1, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0]])
MIXES = {
    "gate": {},
    "gate per head": {"gate": "head"},
    "heads": {"mix": "heads"},
    "cascade": {"mix": "cascade"},
}


def mixed(alignment="monotonic", window=1, **kwargs):
    return MixedAttention(HEADS, DEPTH, window, **{"seed": 1, "alignment": alignment, **kwargs})


def expanded(alignment="monotonic", **kwargs):
    return ExpandedWindowAttention(
        HEADS, DEPTH, **{"window": 2, "extension": 1, "seed": 1, "alignment": alignment, **kwargs}
    )


LAYERS = {"mixed": mixed, "expanded": expanded}


def inputs_of(value_depth=5, query_depth=5, key_depth=None, length=4):
    inputs = {
        "query": normal(2, length, query_depth),
        "value": normal(2, 7, value_depth, seed=1),
        "value_mask": MASK,
    }
    if key_depth:
        inputs["key"] = normal(2, 7, key_depth, seed=2)
    return inputs
