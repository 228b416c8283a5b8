"""Pairs of segments for next-sentence prediction, as spans of a shard's tokens."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Pairs:
    """Segments A and B of `N` examples: `ids[start:start + length]` of the shard.

    Attributes:
        a_start, b_start: `(N,)` int64, where each segment starts in the flat ids.
        a_length, b_length: `(N,)` int32, at least 1.
        label: `(N,)` int32, 0 if B is what follows A, 1 if B is random.
    """

    a_start: np.ndarray
    a_length: np.ndarray
    b_start: np.ndarray
    b_length: np.ndarray
    label: np.ndarray

    def __len__(self):
        return len(self.label)

    @property
    def tokens(self):
        """Tokens of each example, with [CLS] and two [SEP]."""
        return self.a_length + self.b_length + 3

    def __getitem__(self, rows):
        """The pairs of an index array or a slice."""
        return Pairs(
            self.a_start[rows],
            self.a_length[rows],
            self.b_start[rows],
            self.b_length[rows],
            self.label[rows],
        )


@dataclass(frozen=True)
class _Sentences:
    """Per sentence: its tokens and its document, the latter in sentences."""

    start: np.ndarray
    end: np.ndarray
    document_start: np.ndarray
    document_end: np.ndarray

    def end_of_chunk(self, first, tokens):
        """The end of the shortest run from `first` on with `tokens`, or of its document."""
        end = np.searchsorted(self.end, self.start[first] + tokens) + 1
        return np.minimum(end, self.document_end[first])


def make_pairs(shard, *, length, short_fraction, rng):
    """Walks the documents of a shard as BERT does and cuts them into pairs.

    Sentences are gathered until they fill the target; a random number of them
    is A. Half of the time B is the rest; otherwise B comes from a random
    sentence of another document on, and the rest is put back. A pair longer
    than `length - 3` is cut at a random end of its longer segment, token by token.

    It differs from BERT in five ways. A sentence longer than the target takes the next one with
    it where the document has one, since a segment that can only have a random next gives the
    answer away. The last sentence of a document has no true next; for every two of these a later
    random next is made a true one, so that each label stays near one half on any corpus. Short
    targets are drawn for each chunk, not each document. Random segments start at any sentence of
    the other documents with equal probability, so that short documents are not overrepresented.
    In a shard of one document they come from elsewhere in it.

    Args:
        shard: `keras_attn.data.shards.shard_files.Shard`.
        length: Tokens of an example with [CLS] and two [SEP]; at least 5.
        short_fraction: Fraction of chunks whose target is drawn from
            2..`length - 3` and not `length - 3`.
        rng: `np.random.Generator`.

    Returns:
        `Pairs` in the order of the shard. Empty only if the shard is a single
        sentence (or empty).

    Reference:
        Devlin et al., BERT, 2018, appendix A.2.
    """
    sentences = sentences_of(shard)
    count = len(sentences.start)
    target = chunk_targets(count, length, short_fraction, rng)

    first = np.arange(count)
    chunk_end = np.maximum(sentences.end_of_chunk(first, target), first + 2)
    chunk_end = np.minimum(chunk_end, sentences.document_end)
    size = chunk_end - first
    a_end = first + 1 + (rng.random(count) * (size - 1)).astype(np.int64)
    can_be_true = size > 1
    # Only in a shard of one document can a chunk leave nothing to draw from.
    can_be_random = size < count
    draw = rng.random(count) < 0.5

    path, label = _walk(a_end, chunk_end, draw, can_be_true, can_be_random)
    a_end, chunk_end, target = a_end[path], chunk_end[path], target[path]
    a_start = sentences.start[path]
    a_length = sentences.end[a_end - 1] - a_start
    b_start = sentences.end[a_end - 1].copy()
    b_length = sentences.end[chunk_end - 1] - b_start
    random = np.flatnonzero(label)
    b_start[random], b_length[random] = _random_segments(
        sentences, path[random], chunk_end[random], (target - a_length)[random], rng
    )
    return cut(a_start, a_length, b_start, b_length, label, length - 3, rng)


def chunk_targets(count, length, short_fraction, rng):
    """Tokens that each of `count` chunks is to have."""
    target = np.full(count, length - 3, np.int64)
    short = rng.random(count) < short_fraction
    target[short] = rng.integers(2, length - 2, short.sum())
    return target


def sentences_of(shard):
    """The sentences of a shard with their documents."""
    end = np.asarray(shard.sentence_ends, np.int64)
    document_end = np.asarray(shard.document_ends, np.int64)
    sizes = np.diff(document_end, prepend=0)
    return _Sentences(
        start=np.concatenate([np.zeros(1, np.int64), end[:-1]])[: len(end)],
        end=end,
        document_start=np.repeat(document_end - sizes, sizes),
        document_end=np.repeat(document_end, sizes),
    )


def _walk(a_end, chunk_end, draw, can_be_true, can_be_random):
    """Follows the chunks from sentence 0 on. Returns the starts used and their labels."""
    kind = np.where(draw, 1, 0)
    kind = np.where(can_be_true, np.where(can_be_random, kind, 0), 2)
    kind = np.where(can_be_true | can_be_random, kind, 3).tolist()
    after_true, after_random = chunk_end.tolist(), a_end.tolist()
    path, label = [], []
    lonely = start = 0
    while start < len(kind):
        what = kind[start]
        if what == 3:  # A shard of one sentence.
            break
        if what == 2:
            lonely += 1
        elif what == 1 and lonely > 1:
            lonely -= 2
            what = 0
        path.append(start)
        label.append(1 if what else 0)
        start = after_random[start] if what else after_true[start]
    return np.array(path, np.int64), np.array(label, np.int32)


def _random_segments(sentences, first, chunk_end, tokens, rng):
    """Whole sentences of about `tokens` tokens from another document, or from outside the chunk."""
    count = len(sentences.start)
    skip_start, skip_end = sentences.document_start[first], sentences.document_end[first]
    if count and sentences.document_end[0] == count:
        skip_start, skip_end = first, chunk_end
    skipped = skip_end - skip_start
    start = (rng.random(len(first)) * (count - skipped)).astype(np.int64)
    start += np.where(start >= skip_start, skipped, 0)
    end = sentences.end_of_chunk(start, np.maximum(tokens, 1))
    end = np.where(start < skip_start, np.minimum(end, skip_start), end)
    b_start = sentences.start[start]
    return b_start, sentences.end[end - 1] - b_start


def cut(a_start, a_length, b_start, b_length, label, room, rng):
    """Cuts pairs to `room` tokens.

    Removing single tokens from the longer segment (from B where both are
    equal) ends either with the shorter one untouched or with both halves
    equal; how many of them leave at the front is binomial.
    """
    excess = np.maximum(a_length + b_length - room, 0)
    uneven = np.abs(a_length - b_length) >= excess
    a_keep = np.where(uneven, a_length - np.where(a_length > b_length, excess, 0), (room + 1) // 2)
    b_keep = np.where(uneven, b_length - np.where(a_length > b_length, 0, excess), room // 2)
    return Pairs(
        a_start=a_start + rng.binomial(a_length - a_keep, 0.5),
        a_length=a_keep.astype(np.int32),
        b_start=b_start + rng.binomial(b_length - b_keep, 0.5),
        b_length=b_keep.astype(np.int32),
        label=label,
    )
