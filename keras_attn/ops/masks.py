"""Attention masks: True (or integer 1) where a query may attend to a key."""

import keras
from keras import ops

from keras_attn.ops.arguments import require_lengths
from keras_attn.types import MaybeNone, Tensor

# A masked logit: exp(MASKED - maximum) is exactly 0 in float32, and MASKED
# minus itself is 0, not NaN as with -inf.
MASKED = -1e30


def as_mask(mask: Tensor | None, name: str = "mask") -> Tensor | MaybeNone:
    """Validates a mask and converts it to boolean.

    Args:
        mask: Boolean or integer tensor of any shape, or None.
        name: Name of the mask in the error message.

    Returns:
        Boolean tensor of the same shape, or None.

    Raises:
        ValueError: For a float mask, which is ambiguous: some libraries add 0 and -1e9 to the
            logits, others multiply by 1 and 0, and in some 1 means masked.
    """
    if mask is None:
        return None
    mask = ops.convert_to_tensor(mask)
    require_mask(mask, name)
    if keras.backend.standardize_dtype(mask.dtype) == "bool":
        return mask
    return ops.not_equal(mask, 0)


def require_mask(mask: Tensor, name: str) -> None:
    """Raises a ValueError for a mask that is neither boolean nor integer; see `as_mask`."""
    dtype = keras.backend.standardize_dtype(mask.dtype)
    if dtype != "bool" and "int" not in dtype:
        raise ValueError(
            f"{name} must be boolean or integer, True or 1 where a position may be attended to. "
            f"Convert 1/0 with `{name} > 0.5`, 0/-1e9 with `{name} > -1`, and 1 = masked with "
            f"`{name} < 0.5`. Received: {name} of dtype {dtype}"
        )


def padding_mask(lengths: Tensor, max_length: int) -> Tensor:
    """Mask of the first `lengths` positions of each row.

    Args:
        lengths: Integers `(...)`.
        max_length: Number of positions T.

    Returns:
        Boolean `(..., T)`.

    Raises:
        ValueError: If `max_length` is not a non-negative integer.
    """
    require_lengths(max_length=max_length)
    lengths = ops.cast(ops.convert_to_tensor(lengths), "int32")
    return ops.expand_dims(lengths, -1) > ops.arange(max_length, dtype="int32")


def row_mask(mask, lengths, max_length):
    """Combines a mask `(B, T)` and lengths `(B,)`, both optional."""
    mask = as_mask(mask)
    if lengths is None:
        return mask
    lengths = ops.convert_to_tensor(lengths)
    if len(lengths.shape) != 1:
        raise ValueError(
            "lengths must have one number per row, of shape (B,). "
            f"Received: lengths of shape {tuple(lengths.shape)}"
        )
    return combine_masks(mask, padding_mask(lengths, max_length))


def causal_mask(
    query_length: Tensor | int,
    key_length: Tensor | int,
    align: str = "end",
    offset: Tensor | int = 0,
) -> Tensor:
    """Mask that hides the keys after each query.

    With `align="end"` the last query sees all keys: query i sees keys up to `i + S - T`, as in
    GPT-2 and when decoding with a cache; if T > S the first T - S queries see no keys. With
    `align="start"` query i sees keys up to i.

    Args:
        query_length: Number of queries T.
        key_length: Number of keys S.
        align: `"end"` or `"start"`.
        offset: Integer, or integers `(...)`: the number of additional keys that each query sees.

    Returns:
        Boolean `(T, S)`, or `(..., T, S)` with offsets `(...)`.

    Raises:
        ValueError: If `align` is unknown, or a length is not a non-negative integer.
    """
    require_lengths(query_length=query_length, key_length=key_length)
    last = ops.expand_dims(ops.arange(query_length, dtype="int32"), -1)
    last = last + causal_offset(query_length, key_length, align)
    if not isinstance(offset, int):
        offset = ops.cast(offset, "int32")[..., None, None]
    return ops.arange(key_length, dtype="int32") <= last + offset


def causal_offset(query_length, key_length, align):
    """The offset between the index of a query and of the last key it sees, in `causal_mask`.

    Raises:
        ValueError: If `align` is neither `"end"` nor `"start"`.
    """
    if align not in ("end", "start"):
        raise ValueError(f"align must be 'end' or 'start'. Received: align={align!r}")
    return key_length - query_length if align == "end" else 0


def pack_mask(query_packs: Tensor, key_packs: Tensor | None = None) -> Tensor:
    """Mask that separates examples packed into one row.

    Args:
        query_packs: Integers `(B, T)`, the index of the example at each position.
        key_packs: The same for the keys, `(B, S)`; defaults to `query_packs`.

    Returns:
        Boolean `(B, T, S)`.

    Reference:
        Krell et al., Efficient Sequence Packing without Cross-contamination,
        2021.
    """
    key_packs = query_packs if key_packs is None else key_packs
    return ops.equal(ops.expand_dims(query_packs, -1), ops.expand_dims(key_packs, -2))


def combine_masks(*masks: Tensor | None) -> Tensor | MaybeNone:
    """Logical AND of masks.

    Args:
        *masks: Boolean or integer masks that broadcast to one another; None masks nothing.

    Returns:
        Boolean mask, or None if every mask is None.
    """
    combined = None
    for mask in masks:
        mask = as_mask(mask)
        if mask is not None:
            combined = mask if combined is None else ops.logical_and(combined, mask)
    return combined
