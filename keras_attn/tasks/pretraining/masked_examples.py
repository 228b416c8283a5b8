"""Batches for masked-LM and next-sentence pretraining, made from shards of token ids."""

import contextlib
import hashlib
import json

import numpy as np
import tensorflow as tf

from keras_attn.data.masking import Masker
from keras_attn.data.packing import PackedExamples, pack
from keras_attn.data.shards.shard_files import read_index, shard_reader
from keras_attn.errors import UserError
from keras_attn.io.json_files import read_if_complete, write_json
from keras_attn.tasks.pretraining.full_sentences import make_full_rows
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

# Part of the name of the cached counts: raise it when make_pairs gives other pairs, or
# choose_rows other rows.
_PAIRS_VERSION = 1
_PAIRS, _MASKS = 1, 2  # streams of random numbers; ORDER is another
SEGMENTS = ("next_sentence", "sentence_order", "full_sentences")


class PretrainingExamples:
    """The infinite stream of pretraining examples of a prepared folder.

    Epoch `e` is rows `[e * num_examples, (e + 1) * num_examples)`. Every row
    is a function of the folder, the arguments and its number, so
    any process can make any rows, in any order. Pairs and masks differ from epoch to
    epoch; shards and their rows come in an order drawn from the seed.

    Args:
        folder: Folder made by `keras_attn.data.shards.prepare.prepare`.
        tokenizer: `WordPieceTokenizer` that the folder was made with.
        length: Columns `T` of a row; at least 5.
        max_predictions: Slots `P` for masked tokens.
        masked_fraction: Fraction of a row's tokens to predict, in (0, 1].
        short_fraction: Fraction of pairs drawn shorter than `length`, in [0, 1].
        whole_words: Mask all pieces of a word or none.
        spans: Mask spans of words; see `Masker`.
        segments: What a row holds: "next_sentence", two segments, the second random half of the
            time; "sentence_order", two in a row, swapped half of the time; "full_sentences", one,
            without `next_sentence_label`.
        pack: Most examples that share a row; more than 1: see `keras_attn.data.packing.pack`. A
            row then has slots for all that is masked.
        seed: Non-negative int.
        exact: For evaluation. Every epoch is the first one, in the order
            of the shards, so rows `[0, num_examples)` are each pair once.

    Attributes:
        num_examples: Rows of an epoch: as many as the first epoch has.
            Later epochs are cut or filled up to it, shard by shard.

    Raises:
        UserError: If the folder was made with another vocabulary, an
            argument is out of range, or the text has no pair at all.
    """

    def __init__(
        self,
        folder,
        tokenizer,
        *,
        length=128,
        max_predictions=20,
        masked_fraction=0.15,
        short_fraction=0.1,
        whole_words=False,
        spans=False,
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
        self._tokenizer = tokenizer
        self._masker = Masker(
            tokenizer,
            length=length,
            max_predictions=max_predictions,
            fraction=masked_fraction,
            whole_words=whole_words,
            spans=spans,
        )
        self._shards = Recent(shard_reader(folder, index))
        self._ordered = Recent(self._ordered_rows)
        self._counts = self._count_rows(folder, index)
        self.num_examples = int(self._counts.sum())
        if not self.num_examples:
            needed = "one sentence" if segments == "full_sentences" else "two sentences"
            raise UserError(
                f"A text of at least {needed} is needed. "
                f"Received: folder={folder}, segments={segments}"
            )

    def rows(self, start, stop):
        """Makes rows `[start, stop)` of the stream.

        Returns:
            `dict` of NumPy arrays: `token_ids`, `segment_ids`, `padding_mask`
            `(B, T)`, `mask_positions`, `mask_ids` `(B, P)`, `next_sentence_label`
            `(B,)`, all int32, and `mask_weights (B, P)` float32; with `pack` what
            `keras_attn.data.packing.pack` makes of these.
        """
        return join(
            self._rows(*piece)
            for piece in epoch_pieces(self._counts, start, stop, self.seed, self.exact)
        )

    def _rows(self, epoch, shard, start, stop):
        ids, rows = self._ordered(epoch, shard)
        rows = rows[start:stop]
        if self.pack == 1:
            return self._masked(ids, rows, epoch, shard, start)
        batch = self._masked(ids, rows.examples, epoch, shard, rows.first)
        return pack(
            batch,
            rows.rows,
            count=len(rows),
            length=self.length,
            most=self.pack,
            slots=self._masker.max_masked(self.length, self.pack),
            pad_id=self._tokenizer.pad_id,
        )

    def _masked(self, ids, examples, epoch, shard, first):
        lay_out = lay_out_rows if self.segments == "full_sentences" else lay_out_pairs
        batch = lay_out(ids, examples, self._tokenizer, self.length)
        masked = self._masker(
            batch["token_ids"], examples.tokens, epoch_seed(self.seed, epoch, _MASKS, shard), first
        )
        return {**batch, **masked}

    def _shard_rows(self, epoch, shard):
        """(Flat ids, what each row holds, the generator that drew it)."""
        data = self._shards(shard)
        rng = np.random.Generator(np.random.Philox(epoch_seed(self.seed, epoch, _PAIRS, shard)))
        ids = data.ids
        if self.segments == "full_sentences":
            separator = self._tokenizer.sep_id
            ids, rows = make_full_rows(data, length=self.length, separator=separator, rng=rng)
        else:
            make = make_pairs if self.segments == "next_sentence" else make_ordered_pairs
            rows = make(data, length=self.length, short_fraction=self.short_fraction, rng=rng)
        if self.pack > 1:
            if not self.exact:  # else those of one length would share rows in their old order
                rows = rows[rng.permutation(len(rows))]
            rows = PackedExamples.fit(rows, rows.tokens, self.length, self.pack)
        return ids, rows, rng

    def _ordered_rows(self, epoch, shard):
        ids, rows, rng = self._shard_rows(epoch, shard)
        if not self.exact:
            rows = rows[permutation(len(rows), self._counts[shard], rng)]
        return ids, rows

    def _count_rows(self, folder, index):
        """Rows of each shard in the first epoch, remembered beside the shards."""
        options = [self.length, self.short_fraction, self.seed]
        if self.segments != "next_sentence":
            options.append(self.segments)
        if self.pack > 1:
            options.append(["pack", self.pack])
        made_of = json.dumps([_PAIRS_VERSION, options, index["shards"]], sort_keys=True)
        name = f"pairs-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.json"
        path = tf.io.gfile.join(folder, name)
        counts = read_if_complete(path)
        shards = range(len(index["shards"]))
        if (
            not isinstance(counts, list)
            or len(counts) != len(shards)
            or not all(type(count) is int and 0 <= count < 2**63 for count in counts)
        ):
            counts = [len(self._shard_rows(0, shard)[1]) for shard in shards]
            with contextlib.suppress(UserError):  # Not writable: counted anew at each start.
                write_json(path, counts)
        return np.array(counts, np.int64)


def check_options(length, max_predictions, masked_fraction, short_fraction, seed):
    """Checks what can be checked of the arguments of `PretrainingExamples` without any data.

    Raises:
        UserError: Names the field of the config.
    """
    if length < 5:
        raise UserError(f"data.length must be at least 5. Received: data.length={length}")
    # Before max_predictions, which comes from it where none are given.
    if not 0 < masked_fraction <= 1:
        raise UserError(
            "data.masked_fraction must lie in (0, 1]. "
            f"Received: data.masked_fraction={masked_fraction}"
        )
    if max_predictions < 1:
        raise UserError(
            "data.max_predictions must be at least 1. "
            f"Received: data.max_predictions={max_predictions}"
        )
    if not 0 <= short_fraction <= 1:
        raise UserError(
            "data.short_fraction must lie in [0, 1]. "
            f"Received: data.short_fraction={short_fraction}"
        )
    if seed < 0:
        raise UserError(f"train.seed must be at least 0. Received: train.seed={seed}")


def lay_out_pairs(ids, pairs, tokenizer, length):
    """Lays pairs out as `[CLS] A [SEP] B [SEP]` and padding.

    Args:
        ids: Flat token ids that the pairs are spans of.
        pairs: `Pairs`, B of them.
        tokenizer: Gives the ids of [CLS], [SEP] and padding.
        length: Columns `T`.

    Returns:
        `dict` of `token_ids`, `segment_ids`, `padding_mask` `(B, T)` and
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
    """Lays spans out as `[CLS] tokens [SEP]` and padding, all of segment 0.

    Args:
        ids: Flat token ids that the rows are spans of.
        rows: `Rows`, B of them.
        tokenizer, length: As those of `lay_out_pairs`.

    Returns:
        `dict` of `token_ids`, `segment_ids`, `padding_mask` `(B, T)`, int32.
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
