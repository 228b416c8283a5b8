"""Segment pairs for next-sentence prediction, as spans of the tokens of a shard."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Pairs:
    """Segments A and B of N examples, spans `ids[start:start + length]` of the shard.

    Attributes:
        a_start, b_start: `(N,)` int64.
        a_length, b_length: `(N,)` int32, at least 1.
        label: `(N,)` int32; 0 if B follows A, 1 if B is random.
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
        """Number of tokens of each example, with [CLS] and two [SEP]."""
        return self.a_length + self.b_length + 3

    def __getitem__(self, rows):
        """Returns the pairs of an index array or a slice."""
        return Pairs(
            self.a_start[rows],
            self.a_length[rows],
            self.b_start[rows],
            self.b_length[rows],
            self.label[rows],
        )


@dataclass(frozen=True)
class _Sentences:
    """Span of each sentence in tokens, and span of its document in sentences."""

    start: np.ndarray
    end: np.ndarray
    document_start: np.ndarray
    document_end: np.ndarray

    def end_of_chunk(self, first, tokens):
        """Returns the end of the shortest chunk from `first` with `tokens` in its document."""
        end = np.searchsorted(self.end, self.start[first] + tokens) + 1
        return np.minimum(end, self.document_end[first])


def make_pairs(shard, *, length, short_fraction, rng):
    """Splits the documents of a shard into segment pairs, like BERT.

    Consecutive sentences form a chunk of the target length; a random number of them is A. In half
    of the pairs B is the rest. In the other half B starts at a random sentence of another document,
    and the next chunk starts with the rest. A pair longer than `length - 3` is truncated token by
    token, at a random end of its longer segment.

    Differences from BERT:

    - A chunk has at least two sentences if the document has them: a segment that can only have a
      random next one would reveal the label.
    - The last sentence of a document has no true next one. For every two of them, a later random
      pair becomes a true one, so that the labels stay balanced on any corpus.
    - Short targets are sampled per chunk, not per document.
    - Random segments start at any sentence of the other documents with equal probability, so that
      short documents are not overrepresented. In a shard with one document they start elsewhere in
      it.

    Args:
        shard: `keras_attn.data.shards.shard_files.Shard`.
        length: Maximum number of tokens of an example, with [CLS] and two [SEP]; at least 5.
        short_fraction: Fraction of chunks whose target is sampled from 2..`length - 3` instead of
            `length - 3`.
        rng: `np.random.Generator`.

    Returns:
        `Pairs` in the order of the shard; empty only if the shard has less than two sentences.

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
    # A chunk can contain all sentences only in a shard with one document.
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
    """Returns the target length of each of `count` chunks."""
    target = np.full(count, length - 3, np.int64)
    short = rng.random(count) < short_fraction
    target[short] = rng.integers(2, length - 2, short.sum())
    return target


def sentences_of(shard):
    """Returns the sentences of a shard with their documents."""
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
    """Follows the chunks from sentence 0; returns their starts and labels."""
    kind = np.where(draw, 1, 0)
    kind = np.where(can_be_true, np.where(can_be_random, kind, 0), 2)
    kind = np.where(can_be_true | can_be_random, kind, 3).tolist()
    after_true, after_random = chunk_end.tolist(), a_end.tolist()
    path, label = [], []
    unpaired = start = 0
    while start < len(kind):
        what = kind[start]
        if what == 3:  # a shard with one sentence
            break
        if what == 2:
            unpaired += 1
        elif what == 1 and unpaired > 1:
            unpaired -= 2
            what = 0
        path.append(start)
        label.append(1 if what else 0)
        start = after_random[start] if what else after_true[start]
    return np.array(path, np.int64), np.array(label, np.int32)


def _random_segments(sentences, first, chunk_end, tokens, rng):
    """Returns spans of about `tokens` tokens in another document, or outside the chunk."""
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
    """Truncates pairs to `room` tokens.

    Removing single tokens from the longer segment (from B if both are equal) either leaves the
    shorter one unchanged or makes both equal; the number removed at the front is binomial.
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
