"""One cache for several sequences of a row, as a beam has: their tokens of a step side by side.

At each step a sequence attends to what one of them wrote. To go on from another it takes that
one's row in the table of writers; the cache stays where it is.
"""

from keras import ops


def make_writers(batch, rows, length):
    """The table `(B, R, length)` of R sequences before the first step."""
    return ops.zeros((batch, rows, length), "int32")


def take_writers(writers, sources):
    """The table of sequences that go on from others of the same row.

    Args:
        writers: `(B, R, length)`.
        sources: Integers `(B R,)`, the one that each goes on from, counted through all rows.
    """
    _, rows, length = writers.shape
    taken = ops.take(ops.reshape(writers, (-1, length)), sources, axis=0)
    return ops.reshape(taken, (-1, rows, length))


def write_step(writers, index):
    """The table with each sequence itself at step `index`, and what each attends to.

    Returns:
        (writers, mask): the mask is boolean `(B, R, length R)`; None of a single sequence.
    """
    batch, rows, length = ops.shape(writers)
    if rows == 1:
        return writers, None
    numbers = ops.arange(rows, dtype="int32")
    own = ops.broadcast_to(numbers[None, :, None], (batch, rows, 1))
    writers = ops.slice_update(writers, (0, 0, index), own)
    return writers, ops.reshape(writers[..., None] == numbers, (batch, rows, length * rows))
