"""Rows of consecutive full sentences, which may cross document boundaries, or of documents."""

import bisect
from dataclasses import dataclass

import numpy as np

from keras_attn.tasks.pretraining.rows import in_order


@dataclass(frozen=True)
class Rows:
    """Spans `ids[start:start + length]` of N rows.

    Attributes:
        start: `(N,)` int64.
        length: `(N,)` int32, at least 1.
    """

    start: np.ndarray
    length: np.ndarray

    def __len__(self):
        return len(self.length)

    @property
    def tokens(self):
        """Number of tokens of each row, with [CLS] and [SEP]."""
        return self.length + 2

    def __getitem__(self, rows):
        """Returns the rows of an index array or a slice."""
        return Rows(self.start[rows], self.length[rows])


def make_full_rows(shard, *, length, separator, rng):
    """Shuffles the documents of a shard and splits them into rows.

    A row contains as many whole sentences as fit, with a separator between documents. A sentence
    that is longer than a row is continued in the next row.

    Args:
        shard: `keras_attn.data.shards.shard_files.Shard`.
        length: Maximum number of tokens of a row, with [CLS] and [SEP]; at least 3.
        separator: Token id between documents.
        rng: `np.random.Generator`.

    Returns:
        (tokens in their new order, `Rows` of them).

    Reference:
        Liu et al., RoBERTa, 2019, section 4.2, FULL-SENTENCES.
    """
    ids, ends, borders = in_order(shard, rng.permutation(len(shard.document_ends)), separator)
    stops, room = ends.tolist(), length - 2
    starts, lengths, at = [], [], 0
    while at < len(ids):
        stop = bisect.bisect_right(stops, at + room)
        stop = stops[stop - 1] if stop and stops[stop - 1] > at else min(at + room, len(ids))
        starts.append(at)
        lengths.append(stop - at)
        at = stop + (stop < len(ids) and borders[stop])
    return ids, Rows(np.array(starts, np.int64), np.array(lengths, np.int32))


def make_document_rows(shard, *, length):
    """Splits the documents of a shard into rows of one document each.

    Rows of a long document are filled, except for the last one; packing of several examples into a
    row fills it with other documents.

    Args:
        shard: `keras_attn.data.shards.shard_files.Shard`.
        length: Maximum number of tokens of a row, with [CLS] and [SEP]; at least 3.

    Returns:
        `Rows` of the tokens of the shard, in their order.
    """
    room = length - 2
    ends = np.asarray(shard.sentence_ends, np.int64)[np.asarray(shard.document_ends) - 1]
    starts = np.concatenate([np.zeros(1, np.int64), ends])[: len(ends)]
    counts = -(-(ends - starts) // room)
    part = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    start = np.repeat(starts, counts) + part * room
    size = np.minimum(room, np.repeat(ends, counts) - start)
    return Rows(start, size.astype(np.int32))
