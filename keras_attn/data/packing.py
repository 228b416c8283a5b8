"""Packing of several examples into a row, to reduce padding."""

from dataclasses import dataclass

import numpy as np

# Arrays with one entry per token or per masked token of an example.
_TOKEN_ARRAYS = (
    "token_ids",
    "segment_ids",
    "padding_mask",
    "mask_positions",
    "mask_ids",
    "mask_weights",
)


@dataclass(frozen=True)
class PackedExamples:
    """Rows of several examples each.

    Attributes:
        examples: The examples in the order of the rows; indexable by an array or a slice.
        starts: `(R + 1,)` int64: row r has the examples `starts[r]` to `starts[r + 1]`.
        first: For a slice of rows: index of its first example among those of all rows.
    """

    examples: object
    starts: np.ndarray
    first: int = 0

    @classmethod
    def fit(cls, examples, tokens, length, most):
        """Packs examples; see `choose_rows` for the arguments."""
        rows = choose_rows(tokens, length, most)
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows))])
        return cls(examples[np.argsort(rows, kind="stable")], starts)

    def __len__(self):
        return len(self.starts) - 1

    def __getitem__(self, rows):
        """Selects rows by an index array or a slice."""
        numbers = np.arange(len(self))[rows]
        counts = (self.starts[1:] - self.starts[:-1])[numbers]
        starts = np.concatenate([[0], np.cumsum(counts)])
        wanted = np.arange(starts[-1]) + np.repeat(self.starts[numbers] - starts[:-1], counts)
        first = 0
        if isinstance(rows, slice) and len(numbers):
            first = self.first + int(self.starts[numbers[0]])
        return PackedExamples(self.examples[wanted], starts, first)

    @property
    def rows(self):
        """The row of each example, int64 `(N,)`, ascending."""
        return np.repeat(np.arange(len(self)), self.starts[1:] - self.starts[:-1])


def choose_rows(tokens, length, most):
    """Assigns a row to each example by best fit, the longest examples first.

    Examples of equal length are distributed over as many rows as possible before a row gets a
    second one.

    Args:
        tokens: `(N,)`, length of each example.
        length: Length of a row.
        most: Maximum number of examples per row.

    Returns:
        int64 `(N,)`: the row of each example.

    Raises:
        ValueError: If an example is longer than a row.

    Reference:
        Krell et al., Efficient Sequence Packing without Cross-contamination, 2021.
    """
    tokens = np.asarray(tokens, np.int64)
    if tokens.max(initial=0) > length:
        raise ValueError(
            "choose_rows: no example may be longer than a row. "
            f"Received: tokens={tokens.max()}, length={length}"
        )
    rows = np.zeros(len(tokens), np.int64)
    # Remaining capacity of each row: room in tokens, free in examples.
    room, free = np.zeros(0, np.int64), np.zeros(0, np.int64)
    order = np.argsort(-tokens, kind="stable")
    sizes, firsts = np.unique(-tokens[order], return_index=True)
    for size, left in zip(-sizes, np.split(order, firsts)[1:], strict=True):
        while len(left):
            fitting = np.flatnonzero((room >= size) & (free > 0))
            if not len(fitting):
                fitting = len(room) + np.arange(-(-len(left) // min(length // size, most)))
                room = np.append(room, np.full(len(fitting), length))
                free = np.append(free, np.full(len(fitting), most))
            fitting = fitting[np.argsort(room[fitting], kind="stable")][: len(left)]
            rows[left[: len(fitting)]] = fitting
            room[fitting] -= size
            free[fitting] -= 1
            left = left[len(fitting) :]
    return rows


def pack(batch, rows, *, count, length, most, slots=0, pad_id=0):
    """Packs examples into rows.

    Args:
        batch: Dictionary of arrays of N examples, each in a row of its own from column 0:
            `token_ids`, `segment_ids`, `padding_mask` `(N, T)`; `mask_positions`, `mask_ids`,
            `mask_weights` `(N, P)` if tokens are masked; `sample_weight` `(N,)`, optional; any
            others `(N, ...)`, such as labels.
        rows: `(N,)`, the row of each example, ascending.
        count: Number of rows B; may include empty rows.
        length: Length T of a row.
        most: Number of example slots E per row.
        slots: Number of slots for masked tokens per row.
        pad_id: Id of the padding token.

    Returns:
        Dictionary of `token_ids`, `segment_ids`, `padding_mask`, `position_ids` (position of a
        token in its example) and `pack_ids` (number of its example in the row from 1, and 0 for
        padding) `(B, T)`; `cls_positions` (the start of each example) and `sample_weight` (0 for an
        unused slot) `(B, E)`; masked tokens `(B, slots)`; and the other arrays `(B, E, ...)`.
    """
    rows = np.asarray(rows)
    tokens = batch["padding_mask"].sum(axis=1, dtype=np.int64)
    place = _sum_before(np.ones_like(rows), rows)
    offset = _sum_before(tokens, rows)
    example, column = np.nonzero(batch["padding_mask"])
    at = rows[example], offset[example] + column

    def scatter(values, shape=(count, length), where=at, empty=0):
        table = np.full(shape, empty, values.dtype)
        table[where] = values
        return table

    packed = {
        name: scatter(batch[name][example, column]) for name in ("segment_ids", "padding_mask")
    }
    packed["token_ids"] = scatter(batch["token_ids"][example, column], empty=pad_id)
    packed["position_ids"] = scatter(column.astype(np.int32))
    packed["pack_ids"] = scatter((place[example] + 1).astype(np.int32))
    single = {
        "cls_positions": offset.astype(np.int32),
        "sample_weight": np.ones(len(rows), np.float32),
    }
    single |= {name: array for name, array in batch.items() if name not in _TOKEN_ARRAYS}
    for name, values in single.items():
        packed[name] = scatter(values, (count, most, *values.shape[1:]), (rows, place))
    if slots:
        example, slot = np.nonzero(batch["mask_weights"])
        taken = np.count_nonzero(batch["mask_weights"], axis=1)
        where = rows[example], _sum_before(taken, rows)[example] + slot
        masked = {name: batch[name][example, slot] for name in ("mask_ids", "mask_weights")}
        masked["mask_positions"] = (
            batch["mask_positions"][example, slot] + offset[example]
        ).astype(np.int32)
        if "sample_weight" in batch:
            masked["mask_weights"] = masked["mask_weights"] * batch["sample_weight"][example]
        packed |= {name: scatter(values, (count, slots), where) for name, values in masked.items()}
    return packed


def _sum_before(sizes, rows):
    """Returns the sum of the sizes that precede each one in its row; `rows` is ascending."""
    total = np.cumsum(sizes) - sizes
    return total - total[np.searchsorted(rows, rows)]
