"""Attention masks of factorization orders (permutation language modeling)."""

from keras import ops

from keras_attn.ops.gather import take_positions
from keras_attn.ops.masks import as_mask, combine_masks, pack_mask
from keras_attn.types import Tensor


def permutation_mask(ranks: Tensor) -> Tensor:
    """Mask of the positions that each position sees under a factorization order.

    A position sees those with a lower rank; context positions, with rank -1, see one another.

    Args:
        ranks: Integers `(B, T)`: the order in which tokens are predicted, -1 for context.

    Returns:
        Boolean `(B, T, T)`; False on the diagonal except for context.

    Reference:
        Yang et al., XLNet, 2019, eq. 3 and section 2.3.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.ops import permutation_mask
        >>> print(ops.convert_to_numpy(permutation_mask(np.array([[-1, 1, 0]]))).astype(int))
        [[[1 0 0]
          [1 0 1]
          [1 0 0]]]
    """
    ranks = ops.cast(ranks, "int32")
    queries, keys = ranks[:, :, None], ranks[:, None, :]
    context = ops.logical_and(queries == -1, keys == -1)
    return ops.logical_or(keys < queries, context)


def stream_masks(
    length,
    permutation,
    padding_mask=None,
    pack_ids=None,
    query_positions=None,
    memory_length=0,
    memory_mask=None,
):
    """Masks of both streams of `TwoStreamAttention`.

    The content stream always sees its own position, the query stream never does; both see the
    memory.

    Args:
        length: T.
        permutation: Boolean or integer `(B, T, T)`, True for visible positions; None: all are
            visible.
        padding_mask: Integers `(B, T)`, 0 for padding, which is hidden from other positions.
        pack_ids: Integers `(B, T)`; positions of other texts in the row are hidden.
        query_positions: Integers `(B, K)`.
        memory_length: M.
        memory_mask: Integers `(B, M)`, 0 for padding of the memory; None: no padding.

    Returns:
        Boolean masks that broadcast to `(B, T, M + T)` and `(B, K, M + T)`. A mask is None if
        everything is visible, or if there is no query stream.
    """
    seen = combine_masks(
        None if permutation is None else as_mask(permutation, "permutation_mask"),
        None if padding_mask is None else as_mask(padding_mask, "padding_mask")[:, None, :],
        None if pack_ids is None else pack_mask(pack_ids),
    )
    places = ops.arange(length, dtype="int32")
    itself = (places[:, None] == places)[None]  # ONNX has no boolean `ops.eye`
    if memory_mask is not None and seen is None:
        seen = ops.ones((1, length, length), "bool")
    content = None if seen is None else ops.logical_or(seen, itself)
    query = None
    if query_positions is not None:
        own = ops.cast(query_positions, "int32")
        query = own[:, :, None] != places
        if seen is not None:
            rows = ops.broadcast_to(ops.cast(seen, "int32"), (ops.shape(own)[0], length, length))
            query = ops.logical_and(query, take_positions(rows, own) > 0)
    return tuple(
        _prepend_memory_mask(mask, memory_length, memory_mask) for mask in (content, query)
    )


def _prepend_memory_mask(mask, memory_length, memory_mask):
    """Prepends the mask of the memory to a mask `(B, T, T)`."""
    if mask is None or (isinstance(memory_length, int) and memory_length == 0):
        return mask
    if memory_mask is None:
        return ops.pad(mask, [(0, 0), (0, 0), (memory_length, 0)], constant_values=True)
    shape = ops.shape(memory_mask)[0], ops.shape(mask)[1]
    memory = as_mask(memory_mask, "memory_mask")[:, None]
    return ops.concatenate(
        [
            ops.broadcast_to(memory, (*shape, memory_length)),
            ops.broadcast_to(mask, (*shape, ops.shape(mask)[2])),
        ],
        axis=2,
    )
