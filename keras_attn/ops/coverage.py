"""Coverage of a decoder's attention."""

from keras import ops

from keras_attn.types import Tensor


def coverage_loss(attention: Tensor, coverage: Tensor) -> Tensor:
    """Coverage loss, a penalty for repeated attention to the same positions: `sum_i min(a_i, c_i)`.

    Args:
        attention: a, `(..., S)`.
        coverage: c, `(..., S)`, the sum of the attention weights of all earlier steps.

    Returns:
        float32 `(...)`.

    Reference:
        See et al., Get To The Point, 2017, eq. 12.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.ops import coverage_loss
        >>> print(float(coverage_loss(np.array([0.75, 0.25]), np.array([0.5, 1.5]))))
        0.75
    """
    return ops.sum(ops.cast(ops.minimum(attention, coverage), "float32"), axis=-1)
