"""Labelled texts -> batches, as a pure function of seed and index."""

import dataclasses

import numpy as np

from keras_attn.errors import UserError

WINDOW = 64  # batches whose rows are sorted by length together


@dataclasses.dataclass(frozen=True)
class TokenizedTexts:
    """Token ids of texts, or of pairs of texts.

    Attributes:
        ids, pair_ids: Flat arrays of token ids; `pair_ids` is `ids` without pairs.
        starts, pair_starts: Where each text begins in them, int64 `(N,)`.
        lengths, pair_lengths: Tokens of each text, int32 `(N,)`; `pair_lengths` is 0 without pairs.
        row_lengths: Tokens of each row if nothing is cut, with special tokens, int32 `(N,)`.
    """

    ids: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    pair_ids: np.ndarray
    pair_starts: np.ndarray
    pair_lengths: np.ndarray
    row_lengths: np.ndarray


def tokenize_texts(texts, text_pairs, tokenizer):
    """Tokenizes texts, or pairs of texts if `text_pairs` is not None, into `TokenizedTexts`."""
    ids, starts, lengths = _tokenize(texts, tokenizer)
    if text_pairs is None:
        pair = ids, np.zeros(len(texts), np.int64), np.zeros_like(lengths)
    else:
        pair = _tokenize(text_pairs, tokenizer)
    specials = np.int32(tokenizer.row_layout.count(text_pairs is not None))
    return TokenizedTexts(ids, starts, lengths, *pair, lengths + pair[2] + specials)


class TextExamples:
    """Batches of rows of a text, or of two: of BERT `[CLS] text [SEP]` or `[CLS] text [SEP]
    text_pair [SEP]`.

    Texts are tokenised once, when the object is made. Batch `i` of the endless stream is a
    function of the texts, the options and `(seed, i)` alone. In every epoch (of `num_batches`
    batches) each example is there exactly once with its `sample_weight`; the last batch is filled
    up with empty rows of `sample_weight` 0.

    With `shuffle`, an epoch is a permutation of the examples, cut into windows of some batches;
    inside a window examples are sorted by length and cut into batches, whose order is then
    permuted. So rows of a batch are of similar length. With `by_length=False` the permutation is
    just cut into batches. Without `shuffle`, batches hold the examples in the order given.

    Args:
        texts: Strings; empty ones are allowed, and a row without any token is one of padding.
        text_pairs: Strings, or None.
        labels: int32 class indices, float32 scores, or None (to predict).
        tokenizer: A `WordPieceTokenizer`, or any with a `row_layout`.
        length: Longest row in tokens, with marks. Of a pair the longer text is cut first.
        buckets: Lengths a batch may have; None: multiples of 32. `length` is always one.
        batch_size: Rows a batch.
        seed: Of the order.
        shuffle: Whether the order changes every epoch.
        weights: float32 `(N,)`, what each example counts, above 0; None: 1.
        by_length: With `shuffle`: whether rows of a batch are of similar length, which learns more
            slowly at first than batches of all lengths.
        windows: None: what does not fit is cut. Else a longer text becomes several examples,
            whose weights share that of the text: windows that have at least that many tokens in
            common with the next; the last one ends with the text.
        tokens: `tokenize_texts(texts, text_pairs, tokenizer)`, if that is known already.

    Attributes:
        batch_size, length: As given.
        num_examples, num_batches: Of an epoch; windows count.
        num_texts: As given.
        owners: Number of the text of each example, int64 `(N,)`.
        num_cut: How many rows were cut at `length`.
        text_lengths: Tokens of each text with marks, int32.
        row_lengths: Tokens of each example, int32 `(N,)`.
        buckets: As used.

    Raises:
        UserError: If there is no example, or length or batch size are too small.
        ValueError: If texts, pairs and labels are not equally many.
    """

    def __init__(
        self,
        texts,
        text_pairs,
        labels,
        tokenizer,
        *,
        length=128,
        buckets=None,
        batch_size,
        seed=0,
        shuffle=True,
        by_length=True,
        weights=None,
        windows=None,
        tokens=None,
    ):
        self._layout = tokenizer.row_layout
        specials = self._layout.count(text_pairs is not None)
        _check_sizes(texts, text_pairs, labels, length, batch_size, specials)
        self.pad_id = self._layout.pad_id
        tokens = tokens or tokenize_texts(texts, text_pairs, tokenizer)
        self._ids, self._starts, first = tokens.ids, tokens.starts, tokens.lengths
        self._pair_ids, self._pair_starts = tokens.pair_ids, tokens.pair_starts
        second = tokens.pair_lengths
        self.num_texts, self.owners = len(texts), np.arange(len(texts))
        self.text_lengths = tokens.row_lengths
        self._labels = None if labels is None else np.asarray(labels)
        self._weights = np.ones(len(texts), np.float32) if weights is None else weights
        if windows is not None:
            check_windows(windows, length, text_pairs)
            first, second = self._cut_windows(first, length - specials, windows)
        self._first, self._second = cut_longest_first(first, second, length - specials)
        self._paired = text_pairs is not None
        self._seed, self._shuffle, self._by_length = seed, shuffle, by_length
        self._newest_order = (None, None)  # epoch and order
        self.batch_size = batch_size
        self.length = length
        self.num_examples = len(first)
        self.num_batches = -(-len(first) // batch_size)
        self.num_cut = int(np.sum(first + second > length - specials))
        self.row_lengths = self._first + self._second + np.int32(specials)
        self.buckets = _complete_buckets(buckets, length)
        self._unknown = getattr(tokenizer, "unk_id", None)

    def batch(self, index):
        """Makes batch `index` (from 0, without end).

        Returns:
            Dictionary of `token_ids`, `segment_ids`, `padding_mask` int32 `(B, T)`,
            `sample_weight` float32 `(B,)` and, if there are labels, `label` `(B,)`. T is the
            smallest bucket that holds every row.
        """
        epoch, number = divmod(index, self.num_batches)
        order = self._epoch_order(epoch)
        rows = order[number * self.batch_size : (number + 1) * self.batch_size]
        longest = int(self.row_lengths[rows].max())
        width = int(self.buckets[np.searchsorted(self.buckets, longest)])
        batch = self._token_arrays(rows, width)
        batch["sample_weight"] = self._weights[rows]
        if self._labels is not None:
            batch["label"] = self._labels[rows]
        missing = self.batch_size - len(rows)
        empty = {"token_ids": self.pad_id}
        return {key: _fill_up(value, missing, empty.get(key, 0)) for key, value in batch.items()}

    @property
    def unknown_share(self):
        """Share of the tokens of all texts that are unknown."""
        ids = [self._ids, self._pair_ids] if self._paired else [self._ids]
        unknown = sum(np.count_nonzero(part == self._unknown) for part in ids)
        return unknown / max(1, sum(map(len, ids)))

    def _cut_windows(self, lengths, room, overlap):
        """Makes an example of each window; returns the lengths of its texts."""
        counts = 1 + -(-np.maximum(lengths - room, 0) // (room - overlap))
        self.owners = np.repeat(self.owners, counts)
        number = np.arange(len(self.owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        length = lengths[self.owners]
        start = np.minimum(number * (room - overlap), np.maximum(length - room, 0))
        self._starts = self._starts[self.owners] + start
        self._pair_starts = np.zeros_like(self._starts)
        self._weights = (self._weights / counts)[self.owners].astype(np.float32)
        self._labels = None if self._labels is None else self._labels[self.owners]
        first = np.minimum(length - start, room).astype(np.int32)
        return first, np.zeros_like(first)

    def _token_arrays(self, rows, width):
        column, row = np.arange(width)[None, :], np.arange(len(rows))
        ids = np.full((len(rows), width), self.pad_id, np.int32)
        end = np.zeros(len(rows), np.int64)  # of what is in each row already

        def put(marks):
            for mark in marks:
                ids[row, end] = mark
                end[:] += 1

        def put_text(tokens, starts, lengths):
            begin = end[:, None].copy()
            end[:] += lengths[rows]
            inside = (column >= begin) & (column < end[:, None])
            ids[inside] = tokens[(starts[rows][:, None] + column - begin)[inside]]
            return begin

        before, between, after = self._layout[:3]  # where these are none, a row may be empty
        put(before)
        begin = put_text(self._ids, self._starts, self._first)
        if self._paired:
            put(between)
            begin = put_text(self._pair_ids, self._pair_starts, self._second)
        put(after)
        real = column < np.maximum(end, 1)[:, None]
        segments = (self._paired & real & (column >= begin)).astype(np.int32)
        if self._layout.last_segment is not None:
            segments[row, end - 1] = self._layout.last_segment
        return {"token_ids": ids, "segment_ids": segments, "padding_mask": real.astype(np.int32)}

    def _epoch_order(self, epoch):
        if not self._shuffle:
            return np.arange(self.num_examples)
        newest, order = self._newest_order
        if newest != epoch:
            lengths = self.row_lengths if self._by_length else np.zeros_like(self.row_lengths)
            order = _shuffled_order(lengths, self.batch_size, self._seed, epoch)
            self._newest_order = (epoch, order)
        return order


def cut_longest_first(first, second, room):
    """Lengths of pairs after dropping tokens from the longer text until both fit.

    Of equally long texts the second is cut, as google-research/bert does.

    Args:
        first, second: Lengths, int `(N,)`.
        room: Largest sum.

    Returns:
        The two lengths, int32 `(N,)`.
    """
    kept_first = np.minimum(first, np.maximum((room + 1) // 2, room - second))
    kept_second = np.minimum(second, np.maximum(room // 2, room - first))
    return kept_first.astype(np.int32), kept_second.astype(np.int32)


def _shuffled_order(lengths, batch_size, seed, epoch):
    # Philox's bits are the same in every NumPy, its permutations need not be.
    random = np.random.Philox(np.random.SeedSequence([seed, epoch]))
    order = np.argsort(random.random_raw(len(lengths)), kind="stable")
    whole = len(order) // batch_size * batch_size
    full, rest = order[:whole], order[whole:]
    batches = []
    for start in range(0, whole, WINDOW * batch_size):
        window = full[start : start + WINDOW * batch_size]
        window = window[np.argsort(lengths[window], kind="stable")]
        batches.append(window.reshape(-1, batch_size))
    if batches:
        batches = np.concatenate(batches)
        full = batches[np.argsort(random.random_raw(len(batches)), kind="stable")].reshape(-1)
    return np.concatenate([full, rest])


def _tokenize(texts, tokenizer):
    """Returns flat ids, and where each text starts and how long it is."""
    ids, ends = tokenizer.encode(list(texts))
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    # Half the memory; batches are int32 again.
    small = np.uint16 if tokenizer.vocabulary_size <= 1 << 16 else np.int32
    return ids.astype(small), starts, (ends - starts).astype(np.int32)


def _fill_up(array, missing, value):
    widths = [(0, missing)] + [(0, 0)] * (array.ndim - 1)
    return np.pad(array, widths, constant_values=value) if missing else array


def _complete_buckets(buckets, length):
    given = range(32, length, 32) if buckets is None else buckets
    return np.array(sorted({int(bucket) for bucket in given if bucket < length} | {length}))


def _check_sizes(texts, text_pairs, labels, length, batch_size, specials):
    if not len(texts):
        raise UserError("At least one text is needed. Received: none")
    for name, values in (("text_pairs", text_pairs), ("labels", labels)):
        if values is not None and len(values) != len(texts):
            raise ValueError(
                f"As many {name} as texts are needed. Received: {len(values)} and {len(texts)}"
            )
    least = specials + (1 if text_pairs is None else 2)
    if length < least:
        raise UserError(f"A length of at least {least} tokens is needed. "
                        f"Received: length={length}")
    if batch_size < 1:
        raise UserError(f"A batch of at least one row is needed. Received: batch_size={batch_size}")


def check_windows(windows, length, text_pairs):
    """Raises UserError for `windows` that pairs, or rows of `length` tokens, cannot have."""
    if text_pairs is not None:
        raise UserError("data.windows takes single texts. Received: pairs")
    if length is None:
        return
    room = length - 2  # tokens of a text, beside [CLS] and [SEP]
    if not 0 <= windows < room:
        raise UserError(f"data.windows must be in [0, {room}), the tokens of a row. "
                        f"Received: data.windows={windows}")


def mean_by_text(values, owners, count):
    """Means of the windows of each text.

    Args:
        values: `(W, C)`.
        owners: Number of the text of each window, `(W,)`, ascending.
        count: Number of texts N, each with a window.

    Returns:
        `(N, C)`.
    """
    if count == len(values):
        return values
    starts = np.searchsorted(owners, np.arange(count))
    return np.add.reduceat(values, starts) / np.bincount(owners, minlength=count)[:, None]
