"""Step-by-step similarity of two sequences."""

from keras import ops

from keras_attn.ops.arguments import require_not_negative
from keras_attn.ops.masks import as_mask, combine_masks
from keras_attn.types import Tensor


def match_matrix(
    first: Tensor,
    second: Tensor,
    first_mask: Tensor | None = None,
    second_mask: Tensor | None = None,
    epsilon: float = 1e-6,
) -> Tensor:
    """`A_ij = 1 / (1 + |x_i - y_j|)` with the Euclidean distance, in float32.

    Memory is `B T S D`: distances computed from dot products would lose all digits for nearly equal
    steps.

    Args:
        first: x, `(B, T, D)`.
        second: y, `(B, S, D)`.
        first_mask: Boolean or integer `(B, T)`, True for real steps.
        second_mask: Boolean or integer `(B, S)`, True for real steps.
        epsilon: Added to the squared distance, in the gradient only. Otherwise the gradient of
            steps that are equal up to rounding would have full size and an arbitrary direction.

    Returns:
        float32 `(B, T, S)`; 0 where either step is masked.

    Raises:
        ValueError: For a float mask, or an `epsilon` that is not a non-negative number.

    Reference:
        Yin et al., ABCNN, 2016, section 4.1.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.ops import match_matrix
        >>> first, second = np.array([[[0.0, 0.0]]]), np.array([[[0.0, 0.0], [3.0, 4.0]]])
        >>> print(ops.convert_to_numpy(match_matrix(first, second)).round(3))
        [[[1.    0.167]]]
    """
    require_not_negative(epsilon=epsilon)
    first, second = ops.cast(first, "float32"), ops.cast(second, "float32")
    # (B, T, 1, D) - (B, 1, S, D) -> (B, T, S, D) -> (B, T, S)
    squares = ops.sum(ops.square(first[:, :, None] - second[:, None]), axis=-1)
    smooth = 1.0 / (1.0 + ops.sqrt(squares + epsilon))
    matches = smooth + ops.stop_gradient(1.0 / (1.0 + ops.sqrt(squares)) - smooth)
    mask = combine_masks(
        None if first_mask is None else as_mask(first_mask, "first_mask")[:, :, None],
        None if second_mask is None else as_mask(second_mask, "second_mask")[:, None],
    )
    return matches if mask is None else ops.where(mask, matches, 0.0)


def window_sums(x, width):
    """Sums of all windows of `width` consecutive steps.

    Args:
        x: `(B, T + width - 1, ...)`.
        width: Window size in steps.

    Returns:
        `(B, T, ...)`.
    """
    length = ops.shape(x)[1] - width + 1
    return sum(x[:, k : k + length] for k in range(width))
