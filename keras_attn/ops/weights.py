"""Attention weights from logits, and averages weighted by them."""

from keras import ops

from keras_attn.ops.dropout import dropout as drop
from keras_attn.ops.masks import MASKED, as_mask, causal_mask, combine_masks
from keras_attn.types import Tensor


def masked_softmax(logits: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax over the unmasked keys, in float32.

    Args:
        logits: `(..., S)`.
        mask: Boolean or integer mask that broadcasts to `(..., S)`, True where a key may be
            attended to.

    Returns:
        float32 `(..., S)`; 0 where masked, also in fully masked rows.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.ops import masked_softmax
        >>> print(ops.convert_to_numpy(masked_softmax(np.array([[0.0, 0.0, 9.0], [1.0, 2.0, 3.0]]),
        ...                      np.array([[1, 1, 0], [0, 0, 0]]))).round(3))
        [[0.5 0.5 0. ]
         [0.  0.  0. ]]
    """
    logits = ops.cast(logits, "float32")
    if mask is None:
        return softmax(logits)
    mask = as_mask(mask)
    return ops.where(mask, softmax(ops.where(mask, logits, MASKED)), 0.0)


def softmax(logits):
    """Softmax over the last axis, without Keras's warning for an axis of size 1."""
    return ops.ones_like(logits) if logits.shape[-1] == 1 else ops.softmax(logits, axis=-1)


def weighted_average(weights, value, dropout=0.0, seed=None):
    """`weights @ value`, with dropout of the weights.

    Args:
        weights: `(..., T, S)`.
        value: `(..., S, V)`.
        dropout: Dropout rate of the weights.
        seed: Integer or `keras.random.SeedGenerator`.

    Returns:
        `(..., T, V)` in the dtype of the values.
    """
    if dropout:
        weights = drop(weights, dropout, seed)
    return ops.matmul(ops.cast(weights, value.dtype), value)


def joint_mask(query, key, query_mask=None, value_mask=None, attention_mask=None, causal=None):
    """Combines all masks of an attention call.

    Args:
        query: `(B, T, ...)`.
        key: `(B, S, ...)`.
        query_mask: Boolean or integer `(B, T)`; masked queries attend to nothing.
        value_mask: Boolean or integer `(B, S)`; masked keys are not attended to.
        attention_mask: Boolean or integer mask that broadcasts to `(B, T, S)`.
        causal: None, `"end"` or `"start"`, see `causal_mask`.

    Returns:
        Boolean mask that broadcasts to `(B, T, S)`, or None if nothing is masked.

    Raises:
        ValueError: For a float mask.
    """
    parts = [as_mask(attention_mask, "attention_mask")]
    if value_mask is not None:
        parts.append(as_mask(value_mask, "value_mask")[:, None, :])
    if query_mask is not None:
        parts.append(as_mask(query_mask, "query_mask")[:, :, None])
    if causal is not None:
        parts.append(causal_mask(ops.shape(query)[1], ops.shape(key)[1], align=causal))
    return combine_masks(*parts)
