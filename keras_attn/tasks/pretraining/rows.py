"""What makers of pretraining rows share: epochs of shards, and the documents of a shard."""

import threading
from collections import OrderedDict

import numpy as np

from keras_attn.errors import UserError

ORDER = 0  # the stream of random numbers that orders shards


class Recent:
    """Remembers the last two results of a function: the shard being read and its neighbour."""

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
    """Where rows `[start, stop)` of a stream of epochs lie.

    Args:
        counts: `(S,)` rows that each shard gives per epoch.
        start, stop: Rows of the stream.
        seed: The order of the shards in each epoch is drawn from it.
        exact: Keep their order, and let each epoch be epoch 0.

    Yields:
        `(epoch, shard, start, stop)`, the latter two inside that shard's rows.
    """
    if not 0 <= start <= stop:
        raise ValueError(f"Rows need 0 <= start <= stop. Received: start={start}, stop={stop}")
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
        for place in range(np.searchsorted(ends, first, "right"), len(order)):
            begin = ends[place] - counts[order[place]]
            if begin >= last:
                break
            if counts[order[place]]:
                low, high = max(first - begin, 0), min(last, ends[place]) - begin
                yield epoch, int(order[place]), int(low), int(high)


def join(batches):
    """Concatenates dictionaries of arrays."""
    batches = list(batches)
    if len(batches) == 1:
        return batches[0]
    return {key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]}


def epoch_seed(seed, epoch, *path):
    """The independent seed of one thing that is drawn anew each epoch."""
    return np.random.SeedSequence(seed, spawn_key=(epoch, *path))


def permutation(count, size, rng):
    """`size` of `count` rows in random order; each once before any comes again."""
    rounds = [rng.permutation(count) for _ in range(-(-int(size) // max(count, 1)))]
    return np.concatenate([np.zeros(0, np.int64), *rounds])[:size]


def check_vocabulary(folder, index, tokenizer):
    """Raises UserError unless the shards of an index were made with the tokenizer."""
    if index["vocabulary_sha256"] != tokenizer.sha256:
        raise UserError(
            "The shards must be made with the vocabulary in use; prepare the text again in "
            f"another folder. Received: folder={folder}"
        )
    if index["lowercase"] != tokenizer.lowercase:
        raise UserError(
            f"The shards must be made with lowercase={tokenizer.lowercase}; prepare the text "
            f"again in another folder. Received: folder={folder}, lowercase={index['lowercase']}"
        )


def in_order(shard, order, separator):
    """The documents in another order, each but the last with a separator after it.

    Returns:
        (ids, where sentences end, which ids are separators).
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
    places = np.arange(len(moved)) + np.repeat(
        token_starts[order] - (np.cumsum(sizes) - sizes), sizes
    )
    ids[places + moved] = shard.ids[places]
    borders[places + moved] = False
    shift = np.empty(len(order), np.int64)
    shift[order] = new_starts - token_starts[order]
    counts = np.diff(document_ends, prepend=0)
    return ids, np.sort(sentence_ends + np.repeat(shift, counts)), borders
