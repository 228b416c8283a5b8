"""Rows held out for validation, and rows that two splits share."""

import numpy as np

from keras_attn.errors import UserError


def hold_out(table, share, seed, stratify=True):
    """Splits the rows of a table: of each class the same share, equal texts on one side.

    Args:
        table: `Table`.
        share: Of the distinct texts to hold out, in (0, 1).
        seed: Of the draw.
        stratify: Whether labels are classes. Of each at least one text is left to train on.

    Returns:
        Two tables, the second with what is held out; each in the order of the file.

    Raises:
        UserError: If the share leaves one side without rows.
    """
    numbers = {}
    text_of_row = np.array([numbers.setdefault(texts, len(numbers))
                            for texts in _texts(table)])
    _, first = np.unique(text_of_row, return_index=True)
    classes = np.zeros(len(first), np.int64)
    if stratify:
        classes = np.unique([table.labels[row] for row in first], return_inverse=True)[1]
    held = _of_each_class(classes, share, seed, int(stratify))[text_of_row]
    if held.all() or not held.any():
        raise UserError(
            "More training rows, a data.validation, or data.holdout=0 are needed: both sides must "
            f"get some. Received: {len(first)} distinct texts of {classes.max() + 1} classes, "
            f"data.holdout={share}")
    return table.take(np.flatnonzero(~held)), table.take(np.flatnonzero(held))


def shared_rows(first, second):
    """How many rows of the second table have the texts of a row of the first."""
    known = set(_texts(first))
    return sum(texts in known for texts in _texts(second))


def _texts(table):
    return zip(table.texts, table.text_pairs or [None] * len(table), strict=True)


def _of_each_class(classes, share, seed, kept):
    """Which texts to hold out, bool `(N,)`; `kept` of each class are not."""
    counts = np.bincount(classes)
    exact = share * counts
    wanted = np.minimum(np.floor(exact).astype(np.int64), counts - kept)
    # Those of the largest remainder, until the whole share is reached.
    missing = round(share * len(classes)) - wanted.sum()
    order = np.argsort(wanted - exact, kind="stable")
    order = order[counts[order] - kept > wanted[order]]
    wanted[order[:missing]] += 1
    # Philox's bits are the same in every NumPy, its permutations need not be.
    drawn = np.random.Philox(np.random.SeedSequence(seed)).random_raw(len(classes))
    by_class = np.lexsort((drawn, classes))
    place = np.empty(len(classes), np.int64)
    place[by_class] = np.arange(len(classes)) - np.repeat(np.cumsum(counts) - counts, counts)
    return place < wanted[classes]
