"""Rows for permutation language models, made from shards of token ids."""

import numpy as np

from keras_attn.data.masking import Masker, xlnet_lengths
from keras_attn.data.shards.shard_files import read_index, shard_reader
from keras_attn.tasks.pretraining.rows import (
    Recent,
    check_vocabulary,
    epoch_pieces,
    epoch_seed,
    in_order,
    join,
)

_ORDER_OF_DOCUMENTS, _TARGETS, _RANKS = 1, 2, 3


class PermutationExamples:
    """The infinite stream of rows of a prepared folder, for XLNet.

    Documents of a shard come in an order drawn anew each epoch, with a mark between them, and are
    cut into rows `A <sep> B <sep> <cls>`. B follows A, or, in half of the rows, stands elsewhere in
    the shard; each token is in one row of an epoch. What `PretrainingExamples` says of epochs and
    rows holds here.

    A share of the tokens, in spans of words while these fit, is told in a random order; the marks
    of a row have places in that order, too. All else is context.

    Args:
        folder: Folder made by `keras_attn.data.shards.prepare.prepare`.
        tokenizer: The `SentencePieceTokenizer` that it was made with.
        length: Columns `T` of a row, at least 5.
        fraction: Share of the tokens to tell, 1 / K in the paper.
        spans: Whether they are spans of one to five whole words, drawn anywhere in the row (in the
            paper each in a part of the row of its own; data_utils.py takes tokens for words).
        bidirectional: Whether every other row holds its text from the end on.
        memory: Tokens M before a row that it sees; 0: none.
        seed: Non-negative int.
        exact: For evaluation: every epoch has the documents in their order, B follows A, and the
            same tokens are told in the same order.

    Attributes:
        num_examples: Rows of an epoch.

    Raises:
        UserError: If the folder was made with another vocabulary.

    Reference:
        Yang et al., XLNet, 2019, sections 2.3 to 2.5 and 3.1; zihangdai/xlnet, data_utils.py.
    """

    def __init__(
        self,
        folder,
        tokenizer,
        *,
        length=128,
        fraction=1 / 6,
        spans=True,
        bidirectional=False,
        memory=0,
        seed=0,
        exact=False,
    ):
        index = read_index(folder)
        check_vocabulary(folder, index, tokenizer)
        self.length, self.memory = length, memory
        self.bidirectional, self.seed, self.exact = bidirectional, seed, exact
        self._tokenizer = tokenizer
        most = max(1, round(fraction * length))
        self._masker = Masker(
            tokenizer,
            length=length,
            max_predictions=most,
            fraction=fraction,
            spans=spans,
            lengths=xlnet_lengths,
            fill=True,
        )
        self._shards = Recent(shard_reader(folder, index))
        self._streams = Recent(self._stream)
        self._text = length - 3
        self._first = -(-self._text // 2)  # tokens of A
        sizes = [shard["tokens"] + shard["documents"] - 1 for shard in index["shards"]]
        self._counts = np.array([-(-size // self._text) for size in sizes], np.int64)
        self.num_examples = int(self._counts.sum())

    def rows(self, start, stop):
        """Makes rows `[start, stop)` of the stream.

        Returns:
            `dict` of int32 arrays: `token_ids`, `segment_ids` (A 0, B 1, `<cls>` 2),
            `padding_mask` and `permutation_ranks` `(B, T)`; `mask_positions` and `mask_ids`
            `(B, K)`, and `mask_weights`, float32; with `bidirectional` `reversed_rows` `(B,)`; with
            `memory` `memory_ids` and `memory_mask` `(B, M)`.
        """
        return join(
            self._rows(*piece)
            for piece in epoch_pieces(self._counts, start, stop, self.seed, self.exact)
        )

    def _rows(self, epoch, shard, start, stop):
        stream, order, other = self._streams(epoch, shard)
        rows = order[start:stop]
        begin = rows * self._text
        size = np.minimum(len(stream) - begin, self._text)
        backwards = self._backwards(rows)
        first = np.minimum(size, self._first)

        column = np.arange(self.length)
        a, b = first[:, None], size[:, None]  # where A ends, and B without the <sep> between
        in_a, in_b = column < a, (column > a) & (column <= b)
        # B is cut as in the row that it is from; rows that exchange theirs are whole.
        begin_a = begin + np.where(backwards, size - first, 0)
        begin_b = other[rows] * self._text
        begin_b += np.where(self._backwards(other[rows]), 0, first)
        flipped = backwards[:, None]
        places = np.where(
            in_a,
            begin_a[:, None] + np.where(flipped, a - 1 - column, column),
            begin_b[:, None] + np.where(flipped, b - column, column - a - 1),
        )
        marks = np.where(column == b + 2, self._tokenizer.cls_id, self._tokenizer.sep_id)
        marks = np.where(column > b + 2, self._tokenizer.pad_id, marks)
        ids = np.where(in_a | in_b, np.take(stream, places, mode="clip"), marks).astype(np.int32)
        real = column <= b + 2
        batch = {
            "token_ids": ids,
            "padding_mask": real.astype(np.int32),
            "segment_ids": ((column > a).astype(np.int32) + (column > b + 1)) * real,
        }
        batch |= self._told(ids, size + 3, backwards, epoch, shard, start)
        if self.bidirectional:
            batch["reversed_rows"] = backwards
        if self.memory:
            batch |= self._remembered(stream, begin, size, backwards)
        return {
            name: array if array.dtype == np.float32 else array.astype(np.int32)
            for name, array in batch.items()
        }

    def _backwards(self, rows):
        return (rows % 2 == 1) & self.bidirectional

    def _told(self, ids, tokens, backwards, epoch, shard, first_row):
        """Which tokens are told, and in which order."""
        epoch = 0 if self.exact else epoch
        # Words are found from left to right, so in the order of the text.
        column, tokens_of = np.arange(self.length), tokens[:, None]
        mirrored = np.where(
            backwards[:, None] & (column < tokens_of), tokens_of - 1 - column, column
        )
        told = self._masker(
            np.take_along_axis(ids, mirrored, axis=1),
            tokens,
            epoch_seed(self.seed, epoch, _TARGETS, shard),
            first_row,
        )
        told["mask_positions"] = np.where(
            told["mask_weights"] > 0,
            np.take_along_axis(mirrored, told["mask_positions"], axis=1),
            0,
        )
        del told["token_ids"]  # hidden there, which the query stream does instead
        ranked = np.isin(ids, (self._tokenizer.cls_id, self._tokenizer.sep_id))
        row, slot = np.nonzero(told["mask_weights"])
        ranked[row, told["mask_positions"][row, slot]] = True
        random = np.random.Philox(epoch_seed(self.seed, epoch, _RANKS, shard))
        blocks = -(-self.length // 4)  # Philox makes four numbers at a time
        random.advance(first_row * blocks)
        keys = random.random_raw(len(ids) * blocks * 4).reshape(len(ids), -1)[:, : self.length]
        ranks = np.argsort(np.argsort(keys, axis=1), axis=1)
        return told | {"permutation_ranks": np.where(ranked, ranks, -1)}

    def _remembered(self, stream, begin, size, backwards):
        """What was read before: of rows from the end on, the text behind them."""
        steps = np.arange(self.memory)
        places = np.where(
            backwards[:, None],
            (begin + size)[:, None] + self.memory - 1 - steps,
            begin[:, None] - self.memory + steps,
        )
        real = (places >= 0) & (places < len(stream))
        ids = np.where(real, np.take(stream, places, mode="clip"), self._tokenizer.pad_id)
        return {"memory_ids": ids, "memory_mask": real}

    def _stream(self, epoch, shard):
        """The documents of a shard with the mark between; an order of rows; where B is from."""
        data = self._shards(shard)
        rng = np.random.Generator(
            np.random.Philox(epoch_seed(self.seed, epoch, _ORDER_OF_DOCUMENTS, shard))
        )
        documents, order = np.arange(len(data.document_ends)), np.arange(self._counts[shard])
        other = order.copy()
        if not self.exact:
            documents, order = rng.permutation(documents), rng.permutation(order)
            chosen = np.flatnonzero(rng.random(len(order) - 1) < 0.5)  # the last may be short
            other[chosen] = rng.permutation(chosen)
        return in_order(data, documents, self._tokenizer.eod_id)[0], order, other
