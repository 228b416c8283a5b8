"""Rows of causal language models, made from shards of token ids."""

import numpy as np

from keras_attn.data.shards.shard_files import read_index, shard_reader
from keras_attn.tasks.pretraining.rows import (
    Recent,
    check_vocabulary,
    epoch_pieces,
    epoch_seed,
    in_order,
    join,
)

_ORDER_OF_DOCUMENTS = 1


class NextTokenExamples:
    """Infinite stream of the rows of a prepared folder; see `PretrainingExamples`.

    In each epoch, the documents of a shard are shuffled and concatenated, with an end-of-sequence
    token before and after each, and split into rows. Each token is predicted once per epoch.

    Args:
        folder: Folder written by `keras_attn.data.shards.prepare.prepare`.
        tokenizer: The tokenizer of the folder.
        length: Row length T.
        seed: Non-negative int.
        exact: Whether all epochs have the documents in their original order, for evaluation.

    Attributes:
        num_examples: Number of rows of an epoch.

    Raises:
        UserError: If the folder has another vocabulary.
    """

    def __init__(self, folder, tokenizer, *, length=128, seed=0, exact=False):
        index = read_index(folder)
        check_vocabulary(folder, index, tokenizer)
        self.length, self.seed, self.exact = length, seed, exact
        self._end_id = tokenizer.end_id
        self._shards = Recent(shard_reader(folder, index))
        self._streams = Recent(self._stream)
        sizes = [shard["tokens"] + shard["documents"] for shard in index["shards"]]
        self._counts = np.array([-(-size // length) for size in sizes], np.int64)
        self.num_examples = int(self._counts.sum())

    def rows(self, start, stop):
        """Returns rows `[start, stop)` of the stream.

        Returns:
            Dict of int32 arrays `(B, T)`: `token_ids`; `label`, the next tokens; `padding_mask`, 0
            only in the last row of a shard; `pack_ids`, the number of the document in the row, from
            1; and `position_ids`, the position in the document.
        """
        return join(
            self._rows(*piece)
            for piece in epoch_pieces(self._counts, start, stop, self.seed, self.exact)
        )

    def _rows(self, epoch, shard, start, stop):
        stream, order = self._streams(epoch, shard)
        column = np.arange(self.length)
        positions = order[start:stop, None] * self.length + column
        real = positions < len(stream) - 1
        ids, label = (
            np.where(real, np.take(stream, positions + ahead, mode="clip"), self._end_id)
            for ahead in (0, 1)
        )
        begins = (ids == self._end_id) & real
        packs = 1 + np.cumsum(begins[:, 1:], axis=1)
        packs = np.concatenate([np.ones_like(positions[:, :1]), packs], axis=1)
        begins[:, 0] = True
        first = np.maximum.accumulate(np.where(begins, column, 0), axis=1)
        rows = {
            "token_ids": ids,
            "label": label,
            "padding_mask": real,
            "pack_ids": packs,
            "position_ids": column - first,
        }
        return {name: array.astype(np.int32) for name, array in rows.items()}

    def _stream(self, epoch, shard):
        """Returns the tokens of a shard with end-of-sequence tokens, and an order of its rows."""
        data = self._shards(shard)
        rng = np.random.Generator(
            np.random.Philox(epoch_seed(self.seed, epoch, _ORDER_OF_DOCUMENTS, shard))
        )
        documents, order = np.arange(len(data.document_ends)), np.arange(self._counts[shard])
        if not self.exact:
            documents, order = rng.permutation(documents), rng.permutation(order)
        ids, _, _ = in_order(data, documents, self._end_id)
        end = np.array([self._end_id], np.int32)
        return np.concatenate([end, ids, end]), order
