"""Pure functions on tensors, on any Keras backend."""

from keras_attn.ops.activations import gelu_erf, gelu_tanh, relu2
from keras_attn.ops.attention import scaled_dot_product_attention
from keras_attn.ops.coverage import coverage_loss
from keras_attn.ops.crf import crf_loss
from keras_attn.ops.cross_entropy import (
    LinearTeacher,
    linear_cross_entropy,
    sparse_cross_entropy,
)
from keras_attn.ops.gather import take_positions
from keras_attn.ops.masks import as_mask, causal_mask, combine_masks, pack_mask, padding_mask
from keras_attn.ops.matches import match_matrix
from keras_attn.ops.permutations import permutation_mask
from keras_attn.ops.positions import sinusoidal_positions
from keras_attn.ops.weights import masked_softmax

__all__ = [
    "LinearTeacher",
    "as_mask",
    "causal_mask",
    "combine_masks",
    "coverage_loss",
    "crf_loss",
    "gelu_erf",
    "gelu_tanh",
    "linear_cross_entropy",
    "masked_softmax",
    "match_matrix",
    "pack_mask",
    "padding_mask",
    "permutation_mask",
    "relu2",
    "scaled_dot_product_attention",
    "sinusoidal_positions",
    "sparse_cross_entropy",
    "take_positions",
]
