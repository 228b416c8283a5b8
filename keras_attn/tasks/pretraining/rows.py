"""Epochs of shards, and the documents of a shard, for pretraining rows."""

import threading
from collections import OrderedDict

import numpy as np

from keras_attn.errors import UserError

ORDER = 0  # random stream of the order of shards


class Recent:
    """Caches the last two results of a function: a batch may need two shards."""

    def __init__(self, function):
        self._function = function
        self._results = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, *key):
        with self._lock:
            if key not in self._results:
                while len(self._results) > 1:
                    self._results.popitem(last=False)
                self._results[key] = self._function(*key)
            self._results.move_to_end(key)
            return self._results[key]


def epoch_pieces(counts, start, stop, seed, exact):
    """Locates rows `[start, stop)` of a stream of epochs.

    Args:
        counts: Number of rows of each shard per epoch, `(S,)`.
        start, stop: Rows of the stream.
        seed: Seed of the order of the shards in each epoch.
        exact: Whether all epochs equal epoch 0, with the shards in their order.

    Yields:
        (epoch, shard, start, stop), with rows of the shard.
    """
    if not 0 <= start <= stop:
        raise ValueError(f"Rows require 0 <= start <= stop. Received: start={start}, stop={stop}")
    total = int(counts.sum())
    if start == stop:
        yield 0, int(np.argmax(counts > 0)), 0, 0
        return
    for epoch in range(start // total, -(-stop // total)):
        first, last = max(start - epoch * total, 0), min(stop - epoch * total, total)
        order = np.arange(len(counts))
        if exact:
            epoch = 0
        else:
            order = np.random.default_rng(epoch_seed(seed, epoch, ORDER)).permutation(order)
        ends = np.cumsum(counts[order])
        for number in range(np.searchsorted(ends, first, "right"), len(order)):
            begin = ends[number] - counts[order[number]]
            if begin >= last:
                break
            if counts[order[number]]:
                low, high = max(first - begin, 0), min(last, ends[number]) - begin
                yield epoch, int(order[number]), int(low), int(high)


def join(batches):
    """Concatenates dictionaries of arrays."""
    batches = list(batches)
    if len(batches) == 1:
        return batches[0]
    return {key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]}


def epoch_seed(seed, epoch, *path):
    """Returns an independent seed for each epoch and random stream."""
    return np.random.SeedSequence(seed, spawn_key=(epoch, *path))


def permutation(count, size, rng):
    """Returns `size` of `count` rows in random order; rows repeat only after all have occurred."""
    rounds = [rng.permutation(count) for _ in range(-(-int(size) // max(count, 1)))]
    return np.concatenate([np.zeros(0, np.int64), *rounds])[:size]


def check_vocabulary(folder, index, tokenizer):
    """Raises a `UserError` unless the shards of an index were made with the tokenizer."""
    if index["vocabulary_sha256"] != tokenizer.sha256:
        raise UserError(
            "The prepared text has another vocabulary than the run. Prepare it in another folder. "
            f"Received: folder={folder}"
        )
    if index["lowercase"] != tokenizer.lowercase:
        raise UserError(
            f"The prepared text must have lowercase={tokenizer.lowercase}. Prepare it in another "
            f"folder. Received: folder={folder}, lowercase={index['lowercase']}"
        )


def in_order(shard, order, separator):
    """Concatenates documents in another order, with separators between them.

    Returns:
        (ids, ends of the sentences, mask of the separators).
    """
    document_ends = np.asarray(shard.document_ends, np.int64)
    sentence_ends = np.asarray(shard.sentence_ends, np.int64)
    token_ends = sentence_ends[document_ends - 1]
    token_starts = np.concatenate([[0], token_ends[:-1]])[: len(token_ends)]
    sizes = (token_ends - token_starts)[order]
    new_starts = np.cumsum(sizes + 1) - (sizes + 1)
    ids = np.full(int(sizes.sum()) + max(len(order) - 1, 0), separator, np.int32)
    borders = np.ones(len(ids), bool)
    moved = np.repeat(new_starts - token_starts[order], sizes)
    positions = np.arange(len(moved)) + np.repeat(
        token_starts[order] - (np.cumsum(sizes) - sizes), sizes
    )
    ids[positions + moved] = shard.ids[positions]
    borders[positions + moved] = False
    shift = np.empty(len(order), np.int64)
    shift[order] = new_starts - token_starts[order]
    counts = np.diff(document_ends, prepend=0)
    return ids, np.sort(sentence_ends + np.repeat(shift, counts)), borders
