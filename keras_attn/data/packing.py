"""Several examples in one row, so that less of it is padding."""

from dataclasses import dataclass

import numpy as np

# What an example has for each of its tokens, or of those that are masked.
_OF_TOKENS = ("token_ids", "segment_ids", "padding_mask", "mask_positions", "mask_ids",
              "mask_weights")


@dataclass(frozen=True)
class PackedExamples:
    """Rows that hold several examples each.

    Attributes:
        examples: What can be indexed by an array or a slice: the examples, row by row.
        starts: `(R + 1,)` int64: row r holds examples `starts[r]` to `starts[r + 1]`.
        first: Of a slice of rows: where its examples begin in those of all rows.
    """

    examples: object
    starts: np.ndarray
    first: int = 0

    @classmethod
    def fit(cls, examples, tokens, length, most):
        """Packs examples; arguments as those of `choose_rows`."""
        rows = choose_rows(tokens, length, most)
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows))])
        return cls(examples[np.argsort(rows, kind="stable")], starts)

    def __len__(self):
        return len(self.starts) - 1

    def __getitem__(self, rows):
        """The rows of an index array or a slice."""
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
    """Chooses a row for each example: the longest first, where the least room is left.

    Of one length each row takes an example before any takes another.

    Args:
        tokens: `(N,)` of each example.
        length: Columns of a row.
        most: Examples of a row at most.

    Returns:
        int64 `(N,)`: the number of its row.

    Raises:
        ValueError: If an example is longer than a row.

    Reference:
        Krell et al., Efficient Sequence Packing without Cross-contamination, 2021.
    """
    tokens = np.asarray(tokens, np.int64)
    if tokens.max(initial=0) > length:
        raise ValueError(f"No example may be longer than a row. Received: tokens={tokens.max()}, "
                         f"length={length}")
    rows = np.zeros(len(tokens), np.int64)
    room, free = np.zeros(0, np.int64), np.zeros(0, np.int64)  # tokens and examples that fit yet
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
    """Puts examples into rows.

    Args:
        batch: Dict of arrays of N examples, each in a row of its own from column 0:
            `token_ids`, `segment_ids`, `padding_mask` `(N, T)`; `mask_positions`, `mask_ids`,
            `mask_weights` `(N, P)` if tokens are masked; `sample_weight` `(N,)`, optional; any
            others `(N, ...)`, such as labels.
        rows: `(N,)` ascending: the row of each.
        count: Rows B to make; those that no example is in are empty.
        length: Columns T of them.
        most: Examples E that a row has places for.
        slots: Masked tokens that a row has places for.
        pad_id: Id of the padding.

    Returns:
        Dict of `token_ids`, `segment_ids`, `padding_mask`, `position_ids` (of each token in its
        example) and `pack_ids` (the number of its example in the row, from 1; 0 for padding)
        `(B, T)`; `cls_positions` (where each example begins) and `sample_weight` (0 for a place
        without example) `(B, E)`; what was masked, `(B, slots)`; and the others `(B, E, ...)`.
    """
    rows = np.asarray(rows)
    tokens = batch["padding_mask"].sum(axis=1, dtype=np.int64)
    place = _before(np.ones_like(rows), rows)
    offset = _before(tokens, rows)
    example, column = np.nonzero(batch["padding_mask"])
    at = rows[example], offset[example] + column

    def spread(values, shape=(count, length), where=at, empty=0):
        table = np.full(shape, empty, values.dtype)
        table[where] = values
        return table

    packed = {name: spread(batch[name][example, column])
              for name in ("segment_ids", "padding_mask")}
    packed["token_ids"] = spread(batch["token_ids"][example, column], empty=pad_id)
    packed["position_ids"] = spread(column.astype(np.int32))
    packed["pack_ids"] = spread((place[example] + 1).astype(np.int32))
    single = {"cls_positions": offset.astype(np.int32),
              "sample_weight": np.ones(len(rows), np.float32)}
    single |= {name: array for name, array in batch.items() if name not in _OF_TOKENS}
    for name, values in single.items():
        packed[name] = spread(values, (count, most, *values.shape[1:]), (rows, place))
    if slots:
        example, slot = np.nonzero(batch["mask_weights"])
        taken = np.count_nonzero(batch["mask_weights"], axis=1)
        where = rows[example], _before(taken, rows)[example] + slot
        masked = {name: batch[name][example, slot] for name in ("mask_ids", "mask_weights")}
        masked["mask_positions"] = (
            batch["mask_positions"][example, slot] + offset[example]).astype(np.int32)
        if "sample_weight" in batch:
            masked["mask_weights"] = masked["mask_weights"] * batch["sample_weight"][example]
        packed |= {name: spread(values, (count, slots), where) for name, values in masked.items()}
    return packed


def _before(sizes, rows):
    """The sum of the sizes that come before each in its row; rows ascend."""
    total = np.cumsum(sizes) - sizes
    return total - total[np.searchsorted(rows, rows)]
