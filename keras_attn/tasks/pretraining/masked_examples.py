"""Rows of masked language modeling with segment tasks, made from shards of token ids."""

import contextlib
import hashlib
import json
import posixpath

import numpy as np

from keras_attn.data.masking import Masker
from keras_attn.data.packing import PackedExamples, pack
from keras_attn.data.shards.shard_files import read_index, shard_reader
from keras_attn.errors import UserError
from keras_attn.io.json_files import read_if_complete, write_json
from keras_attn.tasks.pretraining.full_sentences import make_document_rows, make_full_rows
from keras_attn.tasks.pretraining.pairs import make_pairs
from keras_attn.tasks.pretraining.rows import (
    Recent,
    check_vocabulary,
    epoch_pieces,
    epoch_seed,
    join,
    permutation,
)
from keras_attn.tasks.pretraining.sentence_order import make_ordered_pairs

# Included in the name of the cached counts. Increase it when the output of make_pairs or
# choose_rows changes.
_PAIRS_VERSION = 1
_PAIRS, _MASKS = 1, 2  # random streams; ORDER is another
SEGMENTS = ("next_sentence", "sentence_order", "full_sentences", "documents")
ONE_SEGMENT = ("full_sentences", "documents")


class PretrainingExamples:
    """Infinite stream of the pretraining examples of a prepared folder.

    Epoch `e` consists of rows `[e * num_examples, (e + 1) * num_examples)`. Each row is a function
    of the folder, the arguments and its number, so any process can make any rows in any order.
    Pairs and masks differ between epochs; the order of shards and rows is a permutation by seed.

    Args:
        folder: Folder written by `keras_attn.data.shards.prepare.prepare`.
        tokenizer: `WordPieceTokenizer` of the folder.
        length: Row length T, at least 5.
        max_predictions: Maximum number P of masked tokens.
        masked_fraction: Fraction of a row's tokens to predict, in (0, 1].
        masked_fraction_end: The same after `expected_rows` rows; the fraction changes linearly.
            None: it is constant.
        short_fraction: Fraction of pairs that are shorter than `length`, in [0, 1].
        whole_words: Whether to mask all subwords of a word or none.
        spans: Whether to mask spans of words; see `Masker`.
        mask_rate, random_rate: See `Masker`.
        segments: Content of a row: "next_sentence", two segments, the second one random in half of
            the rows; "sentence_order", two consecutive segments, swapped in half of the rows;
            "full_sentences", one segment, without `next_sentence_label`; "documents", the same with
            a document or a part of one.
        pack: Maximum number of examples per row; if above 1, see `keras_attn.data.packing.pack`,
            and P covers all examples of a row.
        seed: Non-negative int.
        exact: For evaluation: all epochs equal the first one, in the order of the shards, so that
            rows `[0, num_examples)` contain each pair once.

    Attributes:
        num_examples: Number of rows of the first epoch. In later epochs, rows of each shard are
            dropped or repeated to match it.
        expected_rows: Number of rows of the run, for `masked_fraction_end`; None: unknown, so that
            all rows have `masked_fraction`.

    Raises:
        UserError: If the folder has another vocabulary, an argument is out of range, or the text
            has no pair.
    """

    def __init__(
        self,
        folder,
        tokenizer,
        *,
        length=128,
        max_predictions=20,
        masked_fraction=0.15,
        masked_fraction_end=None,
        short_fraction=0.1,
        whole_words=False,
        spans=False,
        mask_rate=0.8,
        random_rate=0.1,
        segments="next_sentence",
        pack=1,
        seed=0,
        exact=False,
    ):
        check_options(length, max_predictions, masked_fraction, short_fraction, seed)
        index = read_index(folder)
        check_vocabulary(folder, index, tokenizer)
        self.length = length
        self.short_fraction = short_fraction
        self.segments = segments
        self.pack = pack
        self.seed = seed
        self.exact = exact
        self.expected_rows = None
        self._fractions = masked_fraction, masked_fraction_end or masked_fraction
        self._tokenizer = tokenizer
        self._masker = Masker(
            tokenizer,
            length=length,
            max_predictions=max_predictions,
            fraction=max(self._fractions),
            whole_words=whole_words,
            spans=spans,
            mask_rate=mask_rate,
            random_rate=random_rate,
        )
        self._shards = Recent(shard_reader(folder, index))
        self._ordered = Recent(self._ordered_rows)
        self._counts = self._count_rows(folder, index)
        self.num_examples = int(self._counts.sum())
        if not self.num_examples:
            needed = "one sentence" if segments in ONE_SEGMENT else "two sentences"
            raise UserError(
                f"The text must have at least {needed}. "
                f"Received: folder={folder}, segments={segments}"
            )

    def rows(self, start, stop):
        """Returns rows `[start, stop)` of the stream.

        Returns:
            Dict of NumPy arrays: `token_ids`, `segment_ids`, `padding_mask` `(B, T)`,
            `mask_positions`, `mask_ids` `(B, P)`, `next_sentence_label` `(B,)`, all int32, and
            `mask_weights` `(B, P)`, float32; with `pack` see `keras_attn.data.packing.pack`.
        """
        fractions, found = self._masked_fractions(start, stop), []
        for piece in epoch_pieces(self._counts, start, stop, self.seed, self.exact):
            count = piece[-1] - piece[-2]
            found.append(self._rows(*piece, fractions[:count]))
            fractions = fractions[count:]
        return join(found)

    def _masked_fractions(self, start, stop):
        """Returns the fraction of tokens to predict in each row."""
        begin, end = self._fractions
        progress = np.minimum(np.arange(start, stop) / (self.expected_rows or np.inf), 1.0)
        return begin + (end - begin) * progress

    def _rows(self, epoch, shard, start, stop, fractions):
        ids, rows = self._ordered(epoch, shard)
        rows = rows[start:stop]
        if self.pack == 1:
            return self._masked(ids, rows, epoch, shard, start, fractions)
        fractions = fractions[rows.rows]
        batch = self._masked(ids, rows.examples, epoch, shard, rows.first, fractions)
        return pack(
            batch,
            rows.rows,
            count=len(rows),
            length=self.length,
            most=self.pack,
            slots=self._masker.max_masked(self.length, self.pack),
            pad_id=self._tokenizer.pad_id,
        )

    def _masked(self, ids, examples, epoch, shard, first, fractions):
        lay_out = lay_out_rows if self.segments in ONE_SEGMENT else lay_out_pairs
        batch = lay_out(ids, examples, self._tokenizer, self.length)
        seed = epoch_seed(self.seed, epoch, _MASKS, shard)
        masked = self._masker(batch["token_ids"], examples.tokens, seed, first, fractions)
        return {**batch, **masked}

    def _shard_rows(self, epoch, shard):
        """Returns the flat ids, the spans of the rows and the random generator."""
        data = self._shards(shard)
        rng = np.random.Generator(np.random.Philox(epoch_seed(self.seed, epoch, _PAIRS, shard)))
        ids = data.ids
        if self.segments == "full_sentences":
            separator = self._tokenizer.sep_id
            ids, rows = make_full_rows(data, length=self.length, separator=separator, rng=rng)
        elif self.segments == "documents":
            rows = make_document_rows(data, length=self.length)
        else:
            make = make_pairs if self.segments == "next_sentence" else make_ordered_pairs
            rows = make(data, length=self.length, short_fraction=self.short_fraction, rng=rng)
        if self.pack > 1:
            if not self.exact:  # otherwise examples of one length share rows in their old order
                rows = rows[rng.permutation(len(rows))]
            rows = PackedExamples.fit(rows, rows.tokens, self.length, self.pack)
        return ids, rows, rng

    def _ordered_rows(self, epoch, shard):
        ids, rows, rng = self._shard_rows(epoch, shard)
        if not self.exact:
            rows = rows[permutation(len(rows), self._counts[shard], rng)]
        return ids, rows

    def _count_rows(self, folder, index):
        """Returns the number of rows of each shard in the first epoch, cached in the folder."""
        options = [self.length, self.short_fraction, self.seed]
        if self.segments != "next_sentence":
            options.append(self.segments)
        if self.pack > 1:
            options.append(["pack", self.pack])
        made_of = json.dumps([_PAIRS_VERSION, options, index["shards"]], sort_keys=True)
        name = f"pairs-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.json"
        path = posixpath.join(folder, name)
        counts = read_if_complete(path)
        shards = range(len(index["shards"]))
        if (
            not isinstance(counts, list)
            or len(counts) != len(shards)
            or not all(type(count) is int and 0 <= count < 2**63 for count in counts)
        ):
            counts = [len(self._shard_rows(0, shard)[1]) for shard in shards]
            with contextlib.suppress(UserError):  # not writable: counted at each start
                write_json(path, counts)
        return np.array(counts, np.int64)


def check_options(length, max_predictions, masked_fraction, short_fraction, seed):
    """Checks arguments of `PretrainingExamples` without data.

    Raises:
        UserError: If a config field is out of range.
    """
    if length < 5:
        raise UserError(f"data.length must be at least 5. Received: data.length={length}")
    # Before max_predictions, whose default depends on it.
    if not 0 < masked_fraction <= 1:
        raise UserError(
            "data.masked_fraction must be in (0, 1]. "
            f"Received: data.masked_fraction={masked_fraction}"
        )
    if max_predictions < 1:
        raise UserError(
            "data.max_predictions must be at least 1. "
            f"Received: data.max_predictions={max_predictions}"
        )
    if not 0 <= short_fraction <= 1:
        raise UserError(
            f"data.short_fraction must be in [0, 1]. Received: data.short_fraction={short_fraction}"
        )
    if seed < 0:
        raise UserError(f"train.seed must be at least 0. Received: train.seed={seed}")


def lay_out_pairs(ids, pairs, tokenizer, length):
    """Returns rows `[CLS] A [SEP] B [SEP]` with padding.

    Args:
        ids: Flat token ids.
        pairs: `Pairs` of B rows, spans of `ids`.
        tokenizer: Tokenizer with the ids of [CLS], [SEP] and padding.
        length: Row length T.

    Returns:
        Dict of `token_ids`, `segment_ids`, `padding_mask` `(B, T)` and
        `next_sentence_label (B,)`, int32.
    """
    rows, column = np.arange(len(pairs)), np.arange(length, dtype=np.int32)
    b_column = (pairs.a_length + 2)[:, None]
    end = b_column + pairs.b_length[:, None]
    second = column >= b_column
    real = column <= end
    offset = np.where(second, pairs.b_start[:, None] - b_column, pairs.a_start[:, None] - 1)
    token_ids = np.take(ids, column + offset, mode="clip").astype(np.int32, copy=False)
    token_ids[~real] = tokenizer.pad_id
    token_ids[:, 0] = tokenizer.cls_id
    token_ids[rows, pairs.a_length + 1] = tokenizer.sep_id
    token_ids[rows, end[:, 0]] = tokenizer.sep_id
    return {
        "token_ids": token_ids,
        "segment_ids": (second & real).astype(np.int32),
        "padding_mask": real.astype(np.int32),
        "next_sentence_label": pairs.label.copy(),
    }


def lay_out_rows(ids, rows, tokenizer, length):
    """Returns rows `[CLS] tokens [SEP]` with padding, all with segment 0.

    Args:
        ids: Flat token ids.
        rows: `Rows` of B rows, spans of `ids`.
        tokenizer, length: See `lay_out_pairs`.

    Returns:
        Dict of `token_ids`, `segment_ids`, `padding_mask` `(B, T)`, int32.
    """
    column = np.arange(length, dtype=np.int32)
    end = rows.length[:, None] + 1
    token_ids = np.take(ids, column + rows.start[:, None] - 1, mode="clip")
    token_ids = token_ids.astype(np.int32, copy=False)
    token_ids[column > end] = tokenizer.pad_id
    token_ids[:, 0] = tokenizer.cls_id
    token_ids[np.arange(len(rows)), end[:, 0]] = tokenizer.sep_id
    return {
        "token_ids": token_ids,
        "segment_ids": np.zeros_like(token_ids),
        "padding_mask": (column <= end).astype(np.int32),
    }
