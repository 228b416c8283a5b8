"""A cache shared by several sequences of a row, such as beams: their tokens of a step are adjacent.

At each step, a sequence attends to the token of one of the sequences of the row. If it continues
another sequence, it copies that sequence's row of the table of writers; the cache is not reordered.
"""

from keras import ops


def make_writers(batch, rows, length):
    """Creates the table `(B, R, length)` of R sequences before the first step."""
    return ops.zeros((batch, rows, length), "int32")


def take_writers(writers, sources):
    """Reorders the table for sequences that continue other sequences of the same row.

    Args:
        writers: `(B, R, length)`.
        sources: Integers `(B R,)`, the flat index of the parent of each sequence.
    """
    _, rows, length = writers.shape
    taken = ops.take(ops.reshape(writers, (-1, length)), sources, axis=0)
    return ops.reshape(taken, (-1, rows, length))


def write_step(writers, index):
    """Records each sequence as the writer of step `index`, and returns what each sequence attends
    to.

    Returns:
        (writers, mask): the mask is boolean `(B, R, length R)`, or None for a single sequence.
    """
    batch, rows, length = ops.shape(writers)
    if rows == 1:
        return writers, None
    numbers = ops.arange(rows, dtype="int32")
    own = ops.broadcast_to(numbers[None, :, None], (batch, rows, 1))
    writers = ops.slice_update(writers, (0, 0, index), own)
    return writers, ops.reshape(writers[..., None] == numbers, (batch, rows, length * rows))
