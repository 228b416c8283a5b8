"""Gathering of vectors at selected positions."""

from keras import ops

from keras_attn.types import Tensor


def take_positions(x: Tensor, positions: Tensor) -> Tensor:
    """Gathers the vectors at given positions of each row.

    Args:
        x: `(B, T, D)`.
        positions: Integers `(B, P)`, or `(1, P)` for all rows.

    Returns:
        `(B, P, D)`.
    """
    batch, length, depth = ops.shape(x)
    # Gathers rows of (B T, D) along one axis, without an index tensor (B, P, D).
    starts = ops.expand_dims(ops.arange(batch, dtype="int32") * length, 1)
    rows = ops.cast(positions, "int32") + starts
    taken = ops.take(ops.reshape(x, (-1, depth)), ops.reshape(rows, (-1,)), axis=0)
    return ops.reshape(taken, (*ops.shape(rows), depth))
