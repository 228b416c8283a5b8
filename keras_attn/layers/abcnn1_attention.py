"""Attention between two sequences, applied before a convolution (ABCNN-1)."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.seeds import seeded_initializer, split_seed
from keras_attn.ops.arguments import require_sizes
from keras_attn.ops.masks import as_mask
from keras_attn.ops.matches import match_matrix
from keras_attn.ops.products import linear
from keras_attn.types import Initializer, Nest, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class ABCNN1Attention(CheckedLayer):
    """Adds to each of two sequences an attention feature map computed from their match matrix.

    With the match matrix `A_ij = 1 / (1 + |x_i - y_j|)`, the feature maps are `A W_0` and
    `A^T W_1`. Row j of a weight matrix belongs to position j, so sequences may be shorter than
    `max_length` but not longer.

    The feature map is concatenated to the input along the last axis: a `Conv1D` then sees both as
    the paper's convolution sees two feature maps. Masked steps are 0 in both, like the zero padding
    of a wide convolution.

    Args:
        max_length: Maximum sequence length, the number of rows of `W_0` and `W_1`.
        share_weights: Whether `W_0` and `W_1` are the same matrix.
        kernel_initializer: Initializer of both matrices, `(max_length, D)`.
        seed: Integer seed of the initial weights.

    Call arguments:
        first: x, `(B, T, D)`.
        second: y, `(B, S, D)`.
        first_mask: Boolean or integer `(B, T)`, True for real steps.
        second_mask: Boolean or integer `(B, S)`, True for real steps.
        return_attention_scores: Whether to also return A.

    Returns:
        `(B, T, 2 D)` and `(B, S, 2 D)`; with `return_attention_scores` then A, `(B, T, S)`, 0 at
        masked steps.

    Raises:
        ValueError: If the depths differ, a sequence is longer than `max_length`, `max_length` is
            not positive, or a mask is float.

    Reference:
        Yin et al., ABCNN: Attention-Based Convolutional Neural Network for Modeling
        Sentence Pairs, 2016, section 4.1.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import ABCNN1Attention
        >>> layer = ABCNN1Attention(2, kernel_initializer="ones")
        >>> first, second = layer(np.array([[[5.0]]]), np.array([[[5.0], [6.0]]]))
        >>> print(ops.convert_to_numpy(first).round(3), ops.convert_to_numpy(second)[0, 1])
        [[[5.  1.5]]] [6.  0.5]
    """

    AXES = {"first": "BTD", "second": "BSD"}
    SAME_BATCH = ("first", "second")

    def __init__(
        self,
        max_length: int,
        share_weights: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_sizes(max_length=max_length)
        self.max_length = max_length
        self.share_weights = share_weights
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.seed = seed
        self.supports_masking = True

    def build(self, first_shape: Shape, second_shape: Shape) -> None:
        self.require_axes(first=first_shape, second=second_shape)
        names = ["kernel"] if self.share_weights else ["first_kernel", "second_kernel"]
        kernels = [
            self.add_weight(
                name=name,
                shape=(self.max_length, first_shape[-1]),
                initializer=seeded_initializer(self.kernel_initializer, seed),
            )
            for name, seed in zip(names, split_seed(self.seed, len(names)), strict=True)
        ]
        self.first_kernel, self.second_kernel = kernels[0], kernels[-1]
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
            self._add_channel(first, first_mask, matches, self.first_kernel),
            self._add_channel(second, second_mask, ops.swapaxes(matches, 1, 2), self.second_kernel),
        )
        return (*found, ops.cast(matches, first.dtype)) if return_attention_scores else found

    def _add_channel(self, x, mask, matches, kernel):
        length = ops.shape(matches)[2]
        if isinstance(length, int) and length > self.max_length:
            raise ValueError(
                f"ABCNN1Attention: a sequence exceeds max_length={self.max_length}. Truncate the "
                f"inputs, or create the layer with a larger max_length. Received: {length} steps"
            )
        # (B, T, S) x (S, D) -> (B, T, D)
        channel = linear(ops.cast(matches, x.dtype), kernel[:length])
        joined = ops.concatenate([x, channel], axis=-1)
        mask = as_mask(mask)
        return joined if mask is None else ops.where(mask[..., None], joined, 0)

    def compute_mask(self, inputs: Nest, previous_mask: Nest) -> None:
        return None  # Keras would propagate the mask of the first sequence only

    def compute_output_shape(self, first_shape: Shape, second_shape: Shape) -> tuple[Shape, Shape]:
        first, second = ((*shape[:-1], 2 * shape[-1]) for shape in (first_shape, second_shape))
        return first, second

    def compute_output_spec(
        self,
        first: keras.KerasTensor,
        second: keras.KerasTensor,
        first_mask: keras.KerasTensor | None = None,
        second_mask: keras.KerasTensor | None = None,
        return_attention_scores: bool = False,
    ) -> tuple[keras.KerasTensor, ...]:
        # Not traced: JAX and PyTorch replace an unknown length by one that may exceed max_length.
        shapes = [*self.compute_output_shape(first.shape, second.shape)]
        if return_attention_scores:
            shapes.append((*first.shape[:-1], second.shape[1]))
        return tuple(keras.KerasTensor(shape, self.compute_dtype) for shape in shapes)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "max_length": self.max_length,
            "share_weights": self.share_weights,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "seed": self.seed,
        }
