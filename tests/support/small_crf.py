"""Constraints and a layer with random weights, for the tests of `CRF`."""

from keras_attn.layers import CRF
from tests.support.layer_checks import randomize
from tests.support.numpy_attention import normal

TAGS = 3
CONSTRAINTS = {
    "free": {},
    "constrained": {
        "allowed_transitions": [[True, False, True], [True, True, False], [False, True, True]],
        "allowed_start": [True, False, True],
        "allowed_end": [True, True, False],
    },
}


def make_layer(seed=3, **kwargs):
    layer = CRF(**kwargs)
    randomize(layer, {"inputs": normal(2, 4, TAGS)}, seed=seed)
    return layer
