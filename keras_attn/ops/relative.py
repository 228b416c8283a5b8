"""Conversion between distances and pairs of positions, without a vector per pair."""

from keras import ops

from keras_attn.ops.masks import as_mask
from keras_attn.ops.positions import sinusoidal_positions
from keras_attn.ops.sizes import at_least


def relative_shift(x):
    """Selects the entry of each pair's distance ("relative shift").

    Args:
        x: `(..., T, T + S - 1)`; column r has distance `S - 1 - r`, with query i at position
            `i + S - T` among the keys. Without queries `(..., 0, S)`.

    Returns:
        `(..., T, S)`: entry (i, j) is that of the distance `i + S - T - j`.
    """
    *outer, length, count = ops.shape(x)
    x = ops.pad(x, [(0, 0)] * (len(outer) + 1) + [(1, 0)])
    # Each row starts one position further left than the row above.
    x = ops.reshape(x, (*outer, count + 1, length))[..., 1:, :]
    return ops.reshape(x, (*outer, length, count))[..., : count - length + 1]


def relative_shift_transpose(x):
    """Moves the entry of each pair to the column of its distance: transposes `relative_shift`.

    Args:
        x: `(..., T, S)`.

    Returns:
        `(..., T, T + S - 1)`, 0 elsewhere.
    """
    *outer, length, keys = ops.shape(x)
    count = _count(length, keys)
    zeros = ops.zeros((*outer, length, count - keys), x.dtype)
    x = ops.reshape(ops.concatenate([x, zeros], axis=-1), (*outer, count, length))
    x = ops.pad(x, [(0, 0)] * len(outer) + [(1, 0), (0, 0)])
    return ops.reshape(x, (*outer, length, count + 1))[..., 1:]


def relative_distances(length, keys):
    """Distances of the columns of `relative_shift`, int32 `(T + S - 1,)`: S - 1 down to 1 - T."""
    return keys - 1 - ops.arange(_count(length, keys), dtype="int32")


def _count(length, keys):
    """T + S - 1, or S without queries, so that it is never negative."""
    return at_least(length, 1) + keys - 1


def relative_position_vectors(length, keys, depth, max_distance=None, reversed_rows=None):
    """Sinusoidal encodings of the distances of the columns of `relative_shift`.

    Args:
        length: T.
        keys: S.
        depth: Depth D of the vectors.
        max_distance: Distances are clipped to this value; None: no limit.
        reversed_rows: Boolean or integer `(B,)`, True for rows that contain a reversed text; None:
            there are none.

    Returns:
        float32 `(T + S - 1, D)`, with reversed rows `(B, T + S - 1, D)`.
    """
    distances = relative_distances(length, keys)
    if max_distance is not None:
        distances = ops.clip(distances, -max_distance, max_distance)
    if reversed_rows is not None:
        signs = 1 - 2 * ops.cast(as_mask(reversed_rows, "reversed_rows"), "int32")
        distances = signs[:, None] * distances
    return sinusoidal_positions(distances, depth, layout="concat")
