"""Rows for language models that tell the next token, made from shards of token ids."""

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
    """The infinite stream of rows of a prepared folder.

    Documents of a shard come in an order drawn anew each epoch, each after the mark of its
    beginning, which is also what is after its last token; all of that is cut into rows. Every
    token is told once an epoch. What `PretrainingExamples` says of epochs and rows holds here.

    Args:
        folder: Folder made by `keras_attn.data.shards.prepare.prepare`.
        tokenizer: The one that it was made with; `end_id` is the mark.
        length: Columns `T` of a row.
        seed: Non-negative int.
        exact: For evaluation: every epoch has the documents in their order.

    Attributes:
        num_examples: Rows of an epoch.

    Raises:
        UserError: If the folder was made with another vocabulary.
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
        """Makes rows `[start, stop)` of the stream.

        Returns:
            `dict` of int32 arrays `(B, T)`: `token_ids`, `label`, the tokens after them,
            `padding_mask`, 0 only in the last row of a shard, `pack_ids`, which part of a document
            of the row each token belongs to, from 1, and `position_ids`, its place in that part.
        """
        return join(
            self._rows(*piece)
            for piece in epoch_pieces(self._counts, start, stop, self.seed, self.exact)
        )

    def _rows(self, epoch, shard, start, stop):
        stream, order = self._streams(epoch, shard)
        column = np.arange(self.length)
        places = order[start:stop, None] * self.length + column
        real = places < len(stream) - 1
        ids, label = (
            np.where(real, np.take(stream, places + ahead, mode="clip"), self._end_id)
            for ahead in (0, 1)
        )
        begins = (ids == self._end_id) & real
        packs = 1 + np.cumsum(begins[:, 1:], axis=1)
        packs = np.concatenate([np.ones_like(places[:, :1]), packs], axis=1)
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
        """The documents of a shard with the mark before each and at the end; an order of rows."""
        data = self._shards(shard)
        rng = np.random.Generator(
            np.random.Philox(epoch_seed(self.seed, epoch, _ORDER_OF_DOCUMENTS, shard))
        )
        documents, order = np.arange(len(data.document_ends)), np.arange(self._counts[shard])
        if not self.exact:
            documents, order = rng.permutation(documents), rng.permutation(order)
        ids, _, _ = in_order(data, documents, self._end_id)
        mark = np.array([self._end_id], np.int32)
        return np.concatenate([mark, ids, mark]), order
