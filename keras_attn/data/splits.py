"""Train/validation split of a table, and statistics of duplicate texts."""

import numpy as np

from keras_attn.counts import counted
from keras_attn.errors import UserError


def hold_out(table, fraction, seed, labels=None):
    """Splits the rows of a table: stratified by class, with duplicate texts on the same side.

    Texts that only differ in case or whitespace count as duplicates. If the table has groups, the
    rows of a group are on the same side.

    Args:
        table: `Table`.
        fraction: Fraction of rows to hold out, in (0, 1), met as closely as duplicates allow.
        seed: Seed of the split.
        labels: Classes `(N,)`, each of which keeps at least one text for training; for multi-label
            data bool `(N, C)`; None: no stratification.

    Returns:
        Two tables, the second with the held-out rows, both in the order of the file.

    Raises:
        UserError: If one side would have no rows.
    """
    numbers = {}
    groups = getattr(table, "groups", None)
    unit, kept = ("distinct text", _texts(table)) if groups is None else ("group", zip(groups))
    text_of_row = np.array([numbers.setdefault(_normalize(x), len(numbers)) for x in kept])
    _, first, rows = np.unique(text_of_row, return_index=True, return_counts=True)
    labels = np.zeros(len(table), np.int64) if labels is None else np.asarray(labels)
    several, labels = labels.ndim == 2, labels[first]
    if several:
        held = _stratify_by_label(labels > 0, rows, fraction, seed)
    else:
        classes = np.unique(labels, return_inverse=True)[1]
        held = _stratify_by_class(classes, rows, fraction, seed, int(classes.max() > 0))
    held = held[text_of_row]
    if held.all() or not held.any():
        count = labels.shape[1] if several else classes.max() + 1
        of_classes = f" of {counted(count, 'class', 'classes')}" if count > 1 else ""
        raise UserError(
            "Too few training rows to hold out some for validation. Add rows, set data.validation, "
            f"or set data.holdout=0. Received: {counted(len(first), unit)}{of_classes}, "
            f"data.holdout={fraction}"
        )
    return table.take(np.flatnonzero(~held)), table.take(np.flatnonzero(held))


def count_shared_rows(first, second):
    """Counts the rows of the second table whose texts occur in the first.

    Texts that only differ in case or whitespace count as equal.
    """
    known = set(map(_normalize, _texts(first)))
    return sum(_normalize(texts) in known for texts in _texts(second))


def count_conflicting_labels(table, labels):
    """Counts the texts that occur with different labels.

    Texts that only differ in case or whitespace count as equal.

    Args:
        table: `Table`.
        labels: Encoded labels of its rows: `(N,)` or `(N, C)`.
    """
    found = {}
    for texts, label in zip(_texts(table), np.asarray(labels), strict=True):
        found.setdefault(_normalize(texts), set()).add(label.tobytes())
    return sum(len(labels) > 1 for labels in found.values())


def _normalize(texts):
    """Lower-cases texts and collapses whitespace, which most models ignore."""
    return tuple(text and " ".join(text.lower().split()) for text in texts)


def _texts(table):
    return zip(table.texts, table.text_pairs or [None] * len(table), strict=True)


def _stratify_by_class(classes, rows, fraction, seed, kept):
    """Returns which texts to hold out, bool `(N,)`; `rows` counts the rows of each text.

    At least `kept` rows of each class are not held out.
    """
    counts = np.bincount(classes, rows).astype(np.int64)
    exact = fraction * counts
    wanted = np.minimum(np.floor(exact).astype(np.int64), counts - kept)
    # Round up the classes with the largest remainders until the total is reached.
    missing = round(fraction * rows.sum()) - wanted.sum()
    order = np.argsort(wanted - exact, kind="stable")
    order = order[counts[order] - kept > wanted[order]]
    wanted[order[:missing]] += 1
    order = _permutation(len(classes), seed)
    held = _fill(classes, rows, wanted, order)
    left = wanted - np.bincount(classes[held], rows[held], len(counts)).astype(np.int64)
    total = left.sum()
    # Hold out one more text of a class if that gets closer to the target.
    for label in np.argsort(-left, kind="stable"):
        others = order[(classes[order] == label) & ~held[order]] if left[label] > 0 else []
        if len(others):
            text = others[np.argmin(rows[others])]
            stays = rows[others].sum() - rows[text]
            if rows[text] <= 2 * min(left[label], total) and stays >= max(kept, 1):
                held[text] = True
                total -= rows[text]
    return held


def _stratify_by_label(labels, rows, fraction, seed):
    """Returns which texts to hold out, bool `(N,)`, stratified by label as closely as possible.

    Reference:
        Sechidis et al., On the Stratification of Multi-Label Data, 2011.
    """
    order = _permutation(len(labels), seed)
    order = order[np.argsort(-rows[order], kind="stable")]  # rarer texts then balance frequent ones
    labels, rows, left = labels[order], rows[order], np.ones(len(labels), bool)
    shares = np.array([1 - fraction, fraction])
    counts = rows @ labels
    wanted, total = shares[:, None] * counts, shares * rows.sum()
    held = np.zeros(len(labels), bool)
    while counts.any():
        rarest = int(np.argmin(np.where(counts > 0, counts, rows.sum() + 1)))
        for text in np.flatnonzero(left & labels[:, rarest]):
            # The side that lacks most of this label; ties are resolved by the number of rows.
            side = max((0, 1), key=lambda side: (wanted[side, rarest], total[side]))
            held[text], left[text] = side, False
            wanted[side] -= labels[text] * rows[text]
            counts -= labels[text] * rows[text]
            total[side] -= rows[text]
    without = np.flatnonzero(left)
    held[without] = _fill(
        np.zeros(len(without), np.int64),
        rows[without],
        np.array([round(total[1])]),
        np.arange(len(without)),
    )
    return held[np.argsort(order)]


def _fill(classes, rows, wanted, order):
    """Selects the first texts in this order, bool `(N,)`, that fit the wanted rows per class."""
    held, left = np.zeros(len(classes), bool), wanted.tolist()
    for text, kind, count in zip(
        order.tolist(), classes[order].tolist(), rows[order].tolist(), strict=True
    ):
        if count <= left[kind]:
            held[text] = True
            left[kind] -= count
    return held


def _permutation(count, seed):
    """Returns a random permutation."""
    # Only Philox's raw bits are the same in every NumPy version, not its permutations.
    bits = np.random.Philox(np.random.SeedSequence(seed)).random_raw(count)
    return np.argsort(bits, kind="stable")
