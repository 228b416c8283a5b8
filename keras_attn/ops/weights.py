"""Attention weights from logits, and the average that they take."""

from keras import ops

from keras_attn.ops.dropout import dropout as drop
from keras_attn.ops.masks import MASKED, as_mask, causal_mask, combine_masks
from keras_attn.types import Tensor


def masked_softmax(logits: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax over the keys that may be attended, in float32.

    Args:
        logits: `(..., S)`.
        mask: Boolean or integer mask that broadcasts to `(..., S)`, True where a key may be
            attended.

    Returns:
        float32 `(..., S)`; 0 where masked, also in rows with no key at all.

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
    """Softmax over the last axis. Keras warns where that has one entry, which is no mistake."""
    return ops.ones_like(logits) if logits.shape[-1] == 1 else ops.softmax(logits, axis=-1)


def weighted_average(weights, value, dropout=0.0, seed=None):
    """`weights @ value`, some weights dropped.

    Args:
        weights: `(..., T, S)`.
        value: `(..., S, V)`.
        dropout: Share of weights set to 0; the others grow.
        seed: Integer or `keras.random.SeedGenerator`.

    Returns:
        `(..., T, V)` in the dtype of the values.
    """
    if dropout:
        weights = drop(weights, dropout, seed)
    return ops.matmul(ops.cast(weights, value.dtype), value)


def joint_mask(query, key, query_mask=None, value_mask=None, attention_mask=None, causal=None):
    """One mask from all that limit where queries look.

    Args:
        query: `(B, T, ...)`.
        key: `(B, S, ...)`.
        query_mask: Boolean or integer `(B, T)`; False queries attend to nothing.
        value_mask: Boolean or integer `(B, S)`; False keys are not attended.
        attention_mask: Boolean or integer, broadcasts to `(B, T, S)`.
        causal: None, `"end"` or `"start"`, see `causal_mask`.

    Returns:
        Boolean that broadcasts to `(B, T, S)`, or None if nothing is masked.

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
