"""Masks of real tokens, and selection of the last real token."""

from keras import ops

from keras_attn.ops import take_positions
from keras_attn.ops.masks import as_mask
from keras_attn.ops.maxima import safe_max
from keras_attn.ops.time_loop import pad_empty_axis


def real_tokens(inputs, ids="token_ids", mask="padding_mask"):
    """Returns the `padding_mask` of the inputs, or else a mask of all tokens except id 0.

    Returns:
        Boolean, of the shape of the ids.
    """
    return as_mask(inputs[mask] if mask in inputs else inputs[ids], mask)


def take_last(x, inputs):
    """Returns the vectors of the last real tokens, or those at `cls_positions`.

    Args:
        x: `(B, T, D)`.
        inputs: Dictionary that may contain `cls_positions` `(B, E)` and `padding_mask` `(B, T)`.

    Returns:
        `(B, D)`, 0 for texts without tokens; with `cls_positions` `(B, E, D)`.
    """
    mask, positions = inputs.get("padding_mask"), inputs.get("cls_positions")
    if positions is not None:
        return take_positions(x, positions)
    if mask is None:
        return ops.sum(x[:, -1:], axis=1)
    x, mask = pad_empty_axis(x), pad_empty_axis(ops.cast(mask, "int32"))
    places = ops.arange(ops.shape(x)[1], dtype="int32") * mask
    return take_positions(x, safe_max(places, axis=1, keepdims=True, initial=0))[:, 0]
