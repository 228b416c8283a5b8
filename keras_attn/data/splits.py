"""Rows held out for validation, and rows that two splits share."""

import numpy as np

from keras_attn.counts import counted
from keras_attn.errors import UserError


def hold_out(table, share, seed, labels=None):
    """Splits the rows of a table: of each class the same share, equal texts on one side.

    Texts that differ in case or blanks alone are equal.

    Args:
        table: `Table`.
        share: Of the rows to hold out, in (0, 1), as nearly as equal texts allow.
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
    _, first, rows = np.unique(text_of_row, return_index=True, return_counts=True)
    labels = np.zeros(len(table), np.int64) if labels is None else np.asarray(labels)
    several, labels = labels.ndim == 2, labels[first]
    if several:
        held = _of_each_label(labels > 0, rows, share, seed)
    else:
        classes = np.unique(labels, return_inverse=True)[1]
        held = _of_each_class(classes, rows, share, seed, int(classes.max() > 0))
    held = held[text_of_row]
    if held.all() or not held.any():
        count = labels.shape[1] if several else classes.max() + 1
        raise UserError(
            "More training rows, a data.validation, or data.holdout=0 are needed: both sides must "
            f"get some. Received: {counted(len(first), 'distinct text')} of "
            f"{counted(count, 'class', 'classes')}, data.holdout={share}")
    return table.take(np.flatnonzero(~held)), table.take(np.flatnonzero(held))


def shared_rows(first, second):
    """How many rows of the second table have the texts of a row of the first, but for case and
    blanks."""
    known = set(map(_folded, _texts(first)))
    return sum(_folded(texts) in known for texts in _texts(second))


def differing_labels(table, labels):
    """How many texts, equal but for case and blanks, have rows with different labels.

    Args:
        table: `Table`.
        labels: Of its rows, encoded: `(N,)` or `(N, C)`.
    """
    found = {}
    for texts, label in zip(_texts(table), np.asarray(labels), strict=True):
        found.setdefault(_folded(texts), set()).add(label.tobytes())
    return sum(len(labels) > 1 for labels in found.values())


def _folded(texts):
    """Texts without what most models do not see: case and blanks."""
    return tuple(text and " ".join(text.lower().split()) for text in texts)


def _texts(table):
    return zip(table.texts, table.text_pairs or [None] * len(table), strict=True)


def _of_each_class(classes, rows, share, seed, kept):
    """Which texts to hold out, bool `(N,)`, of `rows` each; `kept` rows of each class are not."""
    counts = np.bincount(classes, rows).astype(np.int64)
    exact = share * counts
    wanted = np.minimum(np.floor(exact).astype(np.int64), counts - kept)
    # Those of the largest remainder, until the whole share is reached.
    missing = round(share * rows.sum()) - wanted.sum()
    order = np.argsort(wanted - exact, kind="stable")
    order = order[counts[order] - kept > wanted[order]]
    wanted[order[:missing]] += 1
    order = _drawn(len(classes), seed)
    held = _fill(classes, rows, wanted, order)
    left = wanted - np.bincount(classes[held], rows[held], len(counts)).astype(np.int64)
    total = left.sum()
    for label in np.argsort(-left, kind="stable"):  # one more, where that is nearer than none
        others = order[(classes[order] == label) & ~held[order]] if left[label] > 0 else []
        if len(others):
            text = others[np.argmin(rows[others])]
            stays = rows[others].sum() - rows[text]
            if rows[text] <= 2 * min(left[label], total) and stays >= max(kept, 1):
                held[text] = True
                total -= rows[text]
    return held


def _of_each_label(labels, rows, share, seed):
    """Which texts to hold out, bool `(N,)`, of each label that share as nearly as can be.

    Reference:
        Sechidis et al., On the Stratification of Multi-Label Data, 2011.
    """
    order = _drawn(len(labels), seed)
    order = order[np.argsort(-rows[order], kind="stable")]  # the others even out frequent texts
    labels, rows, left = labels[order], rows[order], np.ones(len(labels), bool)
    shares = np.array([1 - share, share])
    counts = rows @ labels
    wanted, total = shares[:, None] * counts, shares * rows.sum()
    held = np.zeros(len(labels), bool)
    while counts.any():
        rarest = int(np.argmin(np.where(counts > 0, counts, rows.sum() + 1)))
        for text in np.flatnonzero(left & labels[:, rarest]):
            # Where most of that label are wanted yet, or else most rows.
            side = max((0, 1), key=lambda side: (wanted[side, rarest], total[side]))
            held[text], left[text] = side, False
            wanted[side] -= labels[text] * rows[text]
            counts -= labels[text] * rows[text]
            total[side] -= rows[text]
    without = np.flatnonzero(left)
    held[without] = _fill(np.zeros(len(without), np.int64), rows[without],
                          np.array([round(total[1])]), np.arange(len(without)))
    return held[np.argsort(order)]


def _fill(classes, rows, wanted, order):
    """The first texts in this order, bool `(N,)`, that fit in the rows wanted of each class."""
    held, left = np.zeros(len(classes), bool), wanted.tolist()
    for text, kind, count in zip(order.tolist(), classes[order].tolist(), rows[order].tolist(),
                                 strict=True):
        if count <= left[kind]:
            held[text] = True
            left[kind] -= count
    return held


def _drawn(count, seed):
    """Numbers below a count in a random order."""
    # Philox's bits are the same in every NumPy, its permutations need not be.
    bits = np.random.Philox(np.random.SeedSequence(seed)).random_raw(count)
    return np.argsort(bits, kind="stable")
