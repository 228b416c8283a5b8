"""Rows of permutation language models, made from shards of token ids."""

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
    """Infinite stream of the rows of a prepared folder for XLNet; see `PretrainingExamples`.

    In each epoch, the documents of a shard are shuffled, concatenated with separator tokens, and
    split into rows `A <sep> B <sep> <cls>`. B follows A, or comes from elsewhere in the shard in
    half of the rows. Each token is in one row of an epoch.

    A fraction of the tokens, in spans of words if they fit, is predicted in a random order, which
    includes the special tokens of the row. All other tokens are context.

    Args:
        folder: Folder written by `keras_attn.data.shards.prepare.prepare`.
        tokenizer: The `SentencePieceTokenizer` of the folder.
        length: Row length T, at least 5.
        fraction: Fraction of the tokens to predict, 1 / K in the paper.
        spans: Whether to predict spans of one to five whole words, anywhere in the row (in the
            paper one per segment of the row; data_utils.py counts tokens as words).
        bidirectional: Whether every other row is reversed.
        memory: Number of tokens M before a row that it attends to; 0: none.
        seed: Non-negative int.
        exact: For evaluation: all epochs have the documents in their original order, B follows A,
            and the same tokens are predicted in the same order.

    Attributes:
        num_examples: Number of rows of an epoch.

    Raises:
        UserError: If the folder has another vocabulary.

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
        """Returns rows `[start, stop)` of the stream.

        Returns:
            Dict of int32 arrays: `token_ids`, `segment_ids` (A 0, B 1, `<cls>` 2),
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
        a, b = first[:, None], size[:, None]  # ends of A and B, without the <sep> between
        in_a, in_b = column < a, (column > a) & (column <= b)
        # B is split as in its original row; only full rows exchange their B.
        begin_a = begin + np.where(backwards, size - first, 0)
        begin_b = other[rows] * self._text
        begin_b += np.where(self._backwards(other[rows]), 0, first)
        flipped = backwards[:, None]
        positions = np.where(
            in_a,
            begin_a[:, None] + np.where(flipped, a - 1 - column, column),
            begin_b[:, None] + np.where(flipped, b - column, column - a - 1),
        )
        specials = np.where(column == b + 2, self._tokenizer.cls_id, self._tokenizer.sep_id)
        specials = np.where(column > b + 2, self._tokenizer.pad_id, specials)
        tokens = np.take(stream, positions, mode="clip")
        ids = np.where(in_a | in_b, tokens, specials).astype(np.int32)
        real = column <= b + 2
        batch = {
            "token_ids": ids,
            "padding_mask": real.astype(np.int32),
            "segment_ids": ((column > a).astype(np.int32) + (column > b + 1)) * real,
        }
        batch |= self._targets(ids, size + 3, backwards, epoch, shard, start)
        if self.bidirectional:
            batch["reversed_rows"] = backwards
        if self.memory:
            batch |= self._memory_of(stream, begin, size, backwards)
        return {
            name: array if array.dtype == np.float32 else array.astype(np.int32)
            for name, array in batch.items()
        }

    def _backwards(self, rows):
        return (rows % 2 == 1) & self.bidirectional

    def _targets(self, ids, tokens, backwards, epoch, shard, first_row):
        """Returns the tokens to predict and their order."""
        epoch = 0 if self.exact else epoch
        # Words are detected in the order of the text.
        column, tokens_of = np.arange(self.length), tokens[:, None]
        mirrored = np.where(
            backwards[:, None] & (column < tokens_of), tokens_of - 1 - column, column
        )
        targets = self._masker(
            np.take_along_axis(ids, mirrored, axis=1),
            tokens,
            epoch_seed(self.seed, epoch, _TARGETS, shard),
            first_row,
        )
        targets["mask_positions"] = np.where(
            targets["mask_weights"] > 0,
            np.take_along_axis(mirrored, targets["mask_positions"], axis=1),
            0,
        )
        del targets["token_ids"]  # the query stream hides tokens instead of [MASK]
        ranked = np.isin(ids, (self._tokenizer.cls_id, self._tokenizer.sep_id))
        row, slot = np.nonzero(targets["mask_weights"])
        ranked[row, targets["mask_positions"][row, slot]] = True
        random = np.random.Philox(epoch_seed(self.seed, epoch, _RANKS, shard))
        blocks = -(-self.length // 4)  # Philox generates four numbers at a time
        random.advance(first_row * blocks)
        keys = random.random_raw(len(ids) * blocks * 4).reshape(len(ids), -1)[:, : self.length]
        ranks = np.argsort(np.argsort(keys, axis=1), axis=1)
        return targets | {"permutation_ranks": np.where(ranked, ranks, -1)}

    def _memory_of(self, stream, begin, size, backwards):
        """Returns the tokens before each row; after it for reversed rows."""
        steps = np.arange(self.memory)
        positions = np.where(
            backwards[:, None],
            (begin + size)[:, None] + self.memory - 1 - steps,
            begin[:, None] - self.memory + steps,
        )
        real = (positions >= 0) & (positions < len(stream))
        ids = np.where(real, np.take(stream, positions, mode="clip"), self._tokenizer.pad_id)
        return {"memory_ids": ids, "memory_mask": real}

    def _stream(self, epoch, shard):
        """Returns the tokens of a shard with separators, an order of its rows, and the row of each
        B."""
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
