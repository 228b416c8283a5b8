"""Attention between two sequences in the pooling that follows a convolution (ABCNN-2)."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.ops.arguments import require_sizes
from keras_attn.ops.masks import as_mask
from keras_attn.ops.matches import match_matrix, window_sums
from keras_attn.types import Nest, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class ABCNN2Pooling(CheckedLayer):
    """Sums windows of two sequences, each step weighted by how well it matches the other sequence.

    With `A_ij = 1 / (1 + |x_i - y_j|)`, the weights are `a_i = sum_j A_ij` for x and
    `b_j = sum_i A_ij` for y, and `output_t = sum_{k=t}^{t+width-1} a_k x_k`.

    Args:
        width: Window size in steps. After a wide convolution with the same width, the output has as
            many steps as the input of the convolution.
        normalize: Whether to divide the weights of a sequence by their sum, as the authors' code
            does. In the paper they are not normalized, so they grow with the length.

    Call arguments:
        first: x, `(B, T + width - 1, D)`.
        second: y, `(B, S + width - 1, D)`.
        first_mask: Boolean or integer `(B, T + width - 1)`, True for real steps.
        second_mask: Boolean or integer `(B, S + width - 1)`, True for real steps.
        return_attention_scores: Whether to also return A.

    Returns:
        `(B, T, D)` and `(B, S, D)`, 0 where the window contains a masked step; with
        `return_attention_scores` then A, `(B, T + width - 1, S + width - 1)`.

    Raises:
        ValueError: If the depths differ, `width` is not positive, or a mask is float.

    Reference:
        Yin et al., ABCNN: Attention-Based Convolutional Neural Network for Modeling
        Sentence Pairs, 2016, section 4.2.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import ABCNN2Pooling
        >>> first, second = ABCNN2Pooling(2)(np.array([[[1.0], [1.0]]]), np.array([[[1.0], [3.0]]]))
        >>> print(ops.convert_to_numpy(first).round(3), ops.convert_to_numpy(second).round(3))
        [[[2.667]]] [[[4.]]]
    """

    AXES = {"first": "BTD", "second": "BSD"}

    def __init__(self, width: int, normalize: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_sizes(width=width)
        self.width = width
        self.normalize = normalize
        self.supports_masking = True

    def build(self, first_shape: Shape, second_shape: Shape) -> None:
        self.require_axes(first=first_shape, second=second_shape)
        self.built = True

    def call(
        self,
        first: Tensor,
        second: Tensor,
        first_mask: Tensor | None = None,
        second_mask: Tensor | None = None,
        return_attention_scores: bool = False,
    ) -> tuple[Tensor, ...]:
        matches = match_matrix(first, second, first_mask, second_mask)
        found = (
            self._pool(first, ops.sum(matches, axis=2), first_mask),
            self._pool(second, ops.sum(matches, axis=1), second_mask),
        )
        return (*found, ops.cast(matches, first.dtype)) if return_attention_scores else found

    def _pool(self, x, weights, mask):
        if 0 in x.shape:
            return window_sums(x, self.width)
        if self.normalize:
            weights = ops.divide_no_nan(weights, ops.sum(weights, axis=-1, keepdims=True))
        mask = as_mask(mask)
        if mask is not None:  # the weight is 0, but 0 times infinity is NaN
            x = ops.where(mask[..., None], x, 0)
        pooled = window_sums(x * ops.cast(weights, x.dtype)[..., None], self.width)
        if mask is None:
            return pooled
        whole = window_sums(ops.cast(mask, "int32"), self.width) == self.width
        return ops.where(whole[..., None], pooled, 0)

    def compute_mask(self, inputs: Nest, previous_mask: Nest) -> None:
        return None  # the output has another length

    def compute_output_shape(self, first_shape: Shape, second_shape: Shape) -> tuple[Shape, Shape]:
        first, second = (
            (batch, None if length is None else length - self.width + 1, depth)
            for batch, length, depth in (first_shape, second_shape)
        )
        return first, second

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "width": self.width, "normalize": self.normalize}
