"""Vectors of chosen positions."""

from keras import ops

from keras_attn.types import Tensor


def take_positions(x: Tensor, positions: Tensor) -> Tensor:
    """The vectors at some positions of each row.

    Args:
        x: `(B, T, D)`.
        positions: Integers `(B, P)`, or `(1, P)` for all rows.

    Returns:
        `(B, P, D)`.
    """
    batch, length, depth = ops.shape(x)
    # Rows of (B T, D): a gather along one axis, and no (B, P, D) index.
    starts = ops.expand_dims(ops.arange(batch, dtype="int32") * length, 1)
    rows = ops.cast(positions, "int32") + starts
    taken = ops.take(ops.reshape(x, (-1, depth)), ops.reshape(rows, (-1,)), axis=0)
    return ops.reshape(taken, (*ops.shape(rows), depth))
