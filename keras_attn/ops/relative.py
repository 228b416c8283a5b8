"""From distances to pairs of positions, without a row of numbers for each pair."""

from keras import ops

from keras_attn.ops.masks import as_mask
from keras_attn.ops.positions import sinusoidal_positions
from keras_attn.ops.sizes import at_least


def relative_shift(x):
    """Picks for each pair what belongs to its distance ("relative shift").

    Args:
        x: `(..., T, T + S - 1)`; column r is of distance `S - 1 - r`, with query i at position
            `i + S - T` among the keys; of no query `(..., 0, S)`.

    Returns:
        `(..., T, S)`: entry (i, j) is that of the distance `i + S - T - j`.
    """
    *outer, length, count = ops.shape(x)
    x = ops.pad(x, [(0, 0)] * (len(outer) + 1) + [(1, 0)])
    # Each row begins one place further left than the one above.
    x = ops.reshape(x, (*outer, count + 1, length))[..., 1:, :]
    return ops.reshape(x, (*outer, length, count))[..., :count - length + 1]


def relative_shift_transpose(x):
    """Puts what each pair has at its distance, 0 elsewhere; the transpose of `relative_shift`.

    Args:
        x: `(..., T, S)`.

    Returns:
        `(..., T, T + S - 1)`.
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
    """T + S - 1; of no query S, so that it is never negative."""
    return at_least(length, 1) + keys - 1


def relative_position_vectors(length, keys, depth, max_distance=None, reversed_rows=None):
    """Sines and cosines of the distances of the columns of `relative_shift`.

    Args:
        length, keys: T and S.
        depth: Length D of a vector.
        max_distance: Distances beyond count as it; None: any.
        reversed_rows: Boolean or integer `(B,)`, True for rows that hold a text from its end to
            its beginning; None: there are none.

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
