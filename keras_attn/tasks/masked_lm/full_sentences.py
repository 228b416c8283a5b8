"""Rows of full sentences, one after the other, across the borders of documents."""

import bisect
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Rows:
    """Spans `ids[start:start + length]` of `N` rows.

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
        """Tokens of each row, with [CLS] and [SEP]."""
        return self.length + 2

    def __getitem__(self, rows):
        """The rows of an index array or a slice."""
        return Rows(self.start[rows], self.length[rows])


def make_full_rows(shard, *, length, separator, rng):
    """Puts the documents of a shard in random order and cuts the whole into rows.

    A row holds as many whole sentences as fit, with a separator between documents; a sentence
    longer than a row goes on in the next.

    Args:
        shard: `keras_attn.data.shards.shard_files.Shard`.
        length: Tokens of a row with [CLS] and [SEP]; at least 3.
        separator: Id to put between documents.
        rng: `np.random.Generator`.

    Returns:
        (ids, `Rows`): the tokens in their new order, and spans of them.

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


def in_order(shard, order, separator):
    """The documents in another order, each but the last with a separator after it.

    Returns:
        (ids, where sentences end, which ids are separators).
    """
    document_ends = np.asarray(shard.document_ends, np.int64)
    sentence_ends = np.asarray(shard.sentence_ends, np.int64)
    token_ends = sentence_ends[document_ends - 1]
    token_starts = np.concatenate([[0], token_ends[:-1]])[: len(token_ends)]
    sizes = (token_ends - token_starts)[order]
    new_starts = np.cumsum(sizes + 1) - (sizes + 1)
    ids = np.full(int(sizes.sum()) + max(len(order) - 1, 0), separator, np.int32)
    borders = np.ones(len(ids), bool)
    moved = np.repeat(new_starts - token_starts[order], sizes)
    places = np.arange(len(moved)) + np.repeat(token_starts[order] - (np.cumsum(sizes) - sizes),
                                               sizes)
    ids[places + moved] = shard.ids[places]
    borders[places + moved] = False
    shift = np.empty(len(order), np.int64)
    shift[order] = new_starts - token_starts[order]
    counts = np.diff(document_ends, prepend=0)
    return ids, np.sort(sentence_ends + np.repeat(shift, counts)), borders
