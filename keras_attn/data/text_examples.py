"""Batches of labelled texts, as a pure function of seed and batch index."""

import dataclasses

import numpy as np

from keras_attn.errors import UserError, check_counts

_SORT_WINDOW = 64  # number of batches whose rows are sorted by length together


@dataclasses.dataclass(frozen=True)
class TokenizedTexts:
    """Token ids of texts or text pairs.

    Attributes:
        ids: Flat array of the token ids of the texts.
        starts: Start of each text in `ids`, int64 `(N,)`.
        lengths: Number of tokens of each text, int32 `(N,)`.
        pair_ids: Flat array of the token ids of the second texts; `ids` without pairs.
        pair_starts: Start of each second text in `pair_ids`, int64 `(N,)`.
        pair_lengths: Number of tokens of each second text, int32 `(N,)`; 0 without pairs.
        row_lengths: Length of each row without truncation, with special tokens, int32 `(N,)`.
    """

    ids: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    pair_ids: np.ndarray
    pair_starts: np.ndarray
    pair_lengths: np.ndarray
    row_lengths: np.ndarray


def tokenize_texts(texts, text_pairs, tokenizer):
    """Tokenizes texts, or text pairs if `text_pairs` is not None, into `TokenizedTexts`."""
    ids, starts, lengths = _tokenize(texts, tokenizer)
    if text_pairs is None:
        pair = ids, np.zeros(len(texts), np.int64), np.zeros_like(lengths)
    else:
        pair = _tokenize(text_pairs, tokenizer)
    specials = np.int32(tokenizer.row_layout.count(text_pairs is not None))
    return TokenizedTexts(ids, starts, lengths, *pair, lengths + pair[2] + specials)


class TextExamples:
    """Batches of texts or text pairs; for BERT, `[CLS] text [SEP]` or
    `[CLS] text [SEP] text_pair [SEP]`.

    Texts are tokenized once, at construction. Batch `i` of the endless stream is a function of the
    texts, the options and `(seed, i)` alone. In every epoch (of `num_batches` batches) each example
    occurs exactly once with its `sample_weight`; the last batch is padded with empty rows of
    `sample_weight` 0.

    With `shuffle`, an epoch is a random permutation of the examples. It is split into windows of
    several batches, the examples of a window are sorted by length and split into batches, and the
    batches are shuffled. So the rows of a batch have similar lengths. With `by_length=False` the
    permutation is split into batches directly. Without `shuffle`, batches keep the given order.

    Args:
        texts: Strings, possibly empty; a row without any token is a padding row.
        text_pairs: Strings, or None.
        labels: int32 class indices, float32 scores, or None (for prediction).
        tokenizer: A `WordPieceTokenizer`, or another tokenizer with a `row_layout`.
        length: Maximum row length in tokens, including special tokens. Pairs are truncated longest
            first.
        buckets: Allowed batch lengths; defaults to multiples of 32. `length` is always allowed.
        batch_size: Rows per batch.
        seed: Seed of the order.
        shuffle: Whether to shuffle in every epoch.
        weights: float32 `(N,)`, positive weights of the examples; defaults to 1.
        by_length: With `shuffle`: whether the rows of a batch have similar lengths, which learns
            more slowly at first than batches of mixed lengths.
        windows: If None, texts are truncated. Otherwise, a long text is split into several
            examples, which share its weight: windows that overlap by at least this number of
            tokens; the last one ends with the text.
        tokens: `tokenize_texts(texts, text_pairs, tokenizer)`, if already computed.
        row_fields: Further entries of a batch by name: arrays `(N, ...)`.
        token_labels: int32 class indices of the tokens, aligned with `tokens.ids`, instead of
            `labels`; -1 for tokens without a label.
        token_fields: Further entries of a batch by name: arrays `(tokens, ...)`, aligned with
            `tokens.ids`. They are 0 for special tokens, padding and second texts.

    Attributes:
        batch_size: As given.
        length: As given.
        num_examples: Examples per epoch, including windows.
        num_batches: Batches per epoch.
        num_texts: Number of texts.
        owners: Index of the text of each example, int64 `(N,)`.
        num_cut: Number of truncated rows.
        text_lengths: Length of each text with special tokens, int32.
        row_lengths: Length of each example, int32 `(N,)`.
        buckets: Allowed batch lengths, sorted.

    Raises:
        UserError: If there is no example, or `length` or `batch_size` is too small.
        ValueError: If texts, pairs and labels differ in number.
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
        row_fields=None,
        token_labels=None,
        token_fields=None,
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
        self._row_fields = row_fields or {}
        self._token_labels = None if token_labels is None else np.asarray(token_labels, np.int32)
        self._token_fields = token_fields or {}
        self._weights = np.ones(len(texts), np.float32) if weights is None else weights
        if windows is not None:
            check_windows(windows, length, text_pairs)
            first, second = self._split_windows(first, length - specials, windows)
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
        """Returns batch `index` (from 0, without limit).

        Returns:
            Dictionary of `token_ids`, `segment_ids`, `padding_mask` int32 `(B, T)`, `sample_weight`
            float32 `(B,)` and, if there are labels, `label` `(B,)`, or for labels of tokens
            `(B, T)`, with -1 for special tokens, padding and second texts; `row_fields` `(B, ...)`
            and `token_fields` `(B, T, ...)`. T is the smallest bucket that fits every row.
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
        batch.update((name, values[rows]) for name, values in self._row_fields.items())
        missing = self.batch_size - len(rows)
        empty = {"token_ids": self.pad_id, "label": 0 if self._token_labels is None else -1}
        return {key: _fill_up(value, missing, empty.get(key, 0)) for key, value in batch.items()}

    @property
    def unknown_share(self):
        """Fraction of unknown tokens in all texts."""
        ids = [self._ids, self._pair_ids] if self._paired else [self._ids]
        unknown = sum(np.count_nonzero(part == self._unknown) for part in ids)
        return unknown / max(1, sum(map(len, ids)))

    def _split_windows(self, lengths, room, overlap):
        """Splits texts into windows, one example each, and returns the lengths of their texts."""
        counts = 1 + -(-np.maximum(lengths - room, 0) // (room - overlap))
        self.owners = np.repeat(self.owners, counts)
        number = np.arange(len(self.owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        length = lengths[self.owners]
        start = np.minimum(number * (room - overlap), np.maximum(length - room, 0))
        self._starts = self._starts[self.owners] + start
        self._pair_starts = np.zeros_like(self._starts)
        self._weights = (self._weights / counts)[self.owners].astype(np.float32)
        self._labels = None if self._labels is None else self._labels[self.owners]
        self._row_fields = {name: x[self.owners] for name, x in self._row_fields.items()}
        first = np.minimum(length - start, room).astype(np.int32)
        return first, np.zeros_like(first)

    def _token_arrays(self, rows, width):
        column, row = np.arange(width)[None, :], np.arange(len(rows))
        ids = np.full((len(rows), width), self.pad_id, np.int32)
        arrays = {"token_ids": ids}
        end = np.zeros(len(rows), np.int64)  # number of tokens in each row so far

        def put(special_ids):
            for special_id in special_ids:
                ids[row, end] = special_id
                end[:] += 1

        def put_text(tokens, starts, lengths, fields=()):
            begin = end[:, None].copy()
            end[:] += lengths[rows]
            inside = (column >= begin) & (column < end[:, None])
            places = (starts[rows][:, None] + column - begin)[inside]
            ids[inside] = tokens[places]
            for name, values, default in fields:
                shape = *ids.shape, *values.shape[1:]
                arrays[name] = np.full(shape, default, values.dtype)
                arrays[name][inside] = values[places]
            return begin

        fields = [(name, values, 0) for name, values in self._token_fields.items()]
        if self._token_labels is not None:
            fields.append(("label", self._token_labels, -1))
        before, between, after = self._layout[:3]  # if all are empty, a row may be empty
        put(before)
        begin = put_text(self._ids, self._starts, self._first, fields)
        if self._paired:
            put(between)
            begin = put_text(self._pair_ids, self._pair_starts, self._second)
        put(after)
        real = column < np.maximum(end, 1)[:, None]
        segments = (self._paired & real & (column >= begin)).astype(np.int32)
        if self._layout.last_segment is not None:
            segments[row, end - 1] = self._layout.last_segment
        return {**arrays, "segment_ids": segments, "padding_mask": real.astype(np.int32)}

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
    """Truncates pairs by repeatedly dropping a token from the longer text; returns the lengths.

    If both are equally long, the second is truncated, as in google-research/bert.

    Args:
        first: Lengths of the first texts, int `(N,)`.
        second: Lengths of the second texts, int `(N,)`.
        room: Maximum total length.

    Returns:
        The two lengths, int32 `(N,)`.
    """
    kept_first = np.minimum(first, np.maximum((room + 1) // 2, room - second))
    kept_second = np.minimum(second, np.maximum(room // 2, room - first))
    return kept_first.astype(np.int32), kept_second.astype(np.int32)


def _shuffled_order(lengths, batch_size, seed, epoch):
    # Only Philox's raw bits are the same in every NumPy version, not its permutations.
    random = np.random.Philox(np.random.SeedSequence([seed, epoch]))
    order = np.argsort(random.random_raw(len(lengths)), kind="stable")
    whole = len(order) // batch_size * batch_size
    full, rest = order[:whole], order[whole:]
    batches = []
    for start in range(0, whole, _SORT_WINDOW * batch_size):
        window = full[start : start + _SORT_WINDOW * batch_size]
        window = window[np.argsort(lengths[window], kind="stable")]
        batches.append(window.reshape(-1, batch_size))
    if batches:
        batches = np.concatenate(batches)
        full = batches[np.argsort(random.random_raw(len(batches)), kind="stable")].reshape(-1)
    return np.concatenate([full, rest])


def _tokenize(texts, tokenizer):
    """Returns flat ids, and the start and length of each text."""
    ids, ends = tokenizer.encode(list(texts))
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    # Saves memory; batches are converted back to int32.
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
        raise UserError("The data must contain at least one text. Received: none")
    for name, values in (("text_pairs", text_pairs), ("labels", labels)):
        if values is not None and len(values) != len(texts):
            raise ValueError(
                f"TextExamples: texts and {name} must have the same length. "
                f"Received: {len(texts)} and {len(values)}"
            )
    least = specials + (1 if text_pairs is None else 2)
    if length < least:
        raise UserError(
            f"data.length must be at least {least} tokens. Received: data.length={length}"
        )
    check_counts(batch_size=batch_size)


def check_windows(windows, length, text_pairs):
    """Raises UserError if `windows` is not possible with text pairs or with rows of `length`
    tokens.
    """
    if text_pairs is not None:
        raise UserError("data.windows does not support text pairs. Received: pairs")
    if length is None:
        return
    room = length - 2  # tokens of a text, without [CLS] and [SEP]
    if not 0 <= windows < room:
        raise UserError(
            f"data.windows must be in [0, {room}), less than the text tokens of a row. "
            f"Received: data.windows={windows}"
        )


def mean_by_text(values, owners, count):
    """Averages the values of the windows of each text.

    Args:
        values: `(W, C)`.
        owners: Index of the text of each window, `(W,)`, ascending.
        count: Number of texts N, each with at least one window.

    Returns:
        `(N, C)`.
    """
    if count == len(values):
        return values
    starts = np.searchsorted(owners, np.arange(count))
    return np.add.reduceat(values, starts) / np.bincount(owners, minlength=count)[:, None]
