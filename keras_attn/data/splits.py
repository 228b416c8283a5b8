"""Rows held out for validation, and rows that two splits share."""

import numpy as np

from keras_attn.errors import UserError


def hold_out(table, share, seed, labels=None):
    """Splits the rows of a table: of each class the same share, equal texts on one side.

    Texts that differ in case or blanks alone are equal.

    Args:
        table: `Table`.
        share: Of the distinct texts to hold out, in (0, 1).
        seed: Of the draw.
        labels: Classes `(N,)`, of which each leaves at least one text to train on; of several
            labels a row bool `(N, C)`; None: all rows are alike.

    Returns:
        Two tables, the second with what is held out; each in the order of the file.

    Raises:
        UserError: If the share leaves one side without rows.
    """
    numbers = {}
    text_of_row = np.array([numbers.setdefault(_folded(texts), len(numbers))
                            for texts in _texts(table)])
    _, first = np.unique(text_of_row, return_index=True)
    labels = np.zeros(len(table), np.int64) if labels is None else np.asarray(labels)
    several, labels = labels.ndim == 2, labels[first]
    if several:
        held = _of_each_label(labels > 0, share, seed)
    else:
        classes = np.unique(labels, return_inverse=True)[1]
        held = _of_each_class(classes, share, seed, int(classes.max() > 0))
    held = held[text_of_row]
    if held.all() or not held.any():
        count = labels.shape[1] if several else classes.max() + 1
        raise UserError(
            "More training rows, a data.validation, or data.holdout=0 are needed: both sides must "
            f"get some. Received: {len(first)} distinct texts of {count} classes, "
            f"data.holdout={share}")
    return table.take(np.flatnonzero(~held)), table.take(np.flatnonzero(held))


def shared_rows(first, second):
    """How many rows of the second table have the texts of a row of the first, but for case and
    blanks."""
    known = set(map(_folded, _texts(first)))
    return sum(_folded(texts) in known for texts in _texts(second))


def _folded(texts):
    """Texts without what most models do not see: case and blanks."""
    return tuple(text and " ".join(text.lower().split()) for text in texts)


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
    drawn = _drawn(len(classes), seed)
    by_class = np.lexsort((drawn, classes))
    place = np.empty(len(classes), np.int64)
    place[by_class] = np.arange(len(classes)) - np.repeat(np.cumsum(counts) - counts, counts)
    return place < wanted[classes]


def _of_each_label(labels, share, seed):
    """Which texts to hold out, bool `(N,)`, of each label that share as nearly as can be.

    Reference:
        Sechidis et al., On the Stratification of Multi-Label Data, 2011.
    """
    order = np.argsort(_drawn(len(labels), seed), kind="stable")
    labels, left = labels[order], np.ones(len(labels), bool)
    shares = np.array([1 - share, share])
    wanted, rows = shares[:, None] * labels.sum(axis=0), shares * len(labels)
    held = np.zeros(len(labels), bool)
    counts = labels.sum(axis=0)
    while counts.any():
        rarest = int(np.argmin(np.where(counts > 0, counts, len(labels) + 1)))
        for row in np.flatnonzero(left & labels[:, rarest]):
            # Where most of that label are wanted yet, or else most rows.
            side = max((0, 1), key=lambda side: (wanted[side, rarest], rows[side]))
            held[row], left[row] = side, False
            wanted[side] -= labels[row]
            counts -= labels[row]
            rows[side] -= 1
    held[np.flatnonzero(left)[:max(0, round(rows[1]))]] = True
    return held[np.argsort(order)]


def _drawn(count, seed):
    # Philox's bits are the same in every NumPy, its permutations need not be.
    return np.random.Philox(np.random.SeedSequence(seed)).random_raw(count)
