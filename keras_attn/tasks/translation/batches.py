"""Batches of sentence pairs with similar numbers of tokens."""

import numpy as np

from keras_attn.errors import UserError
from keras_attn.text.subwords import BEGIN_ID, END_ID, PAD_ID

STEP = 4  # lengths of batches are multiples of it


class TranslationBatches:
    """Batches of pairs of similar length; a pure function of the seed and the batch index.

    In each epoch the pairs are split into new batches. The longer sides of a batch have one length,
    rounded up to a multiple of `STEP`, and a batch has as many rows as `batch_tokens` allows. The
    order of the batches is random; without `shuffle` the shortest come first.

    Args:
        sources, targets: Lists of arrays of token ids, without special tokens.
        batch_tokens: Maximum number of tokens of the longer side of a batch, with padding; a batch
            has at least one pair.
        multiple: Batches are padded to a multiple of this number of rows, with weight 0; the pairs
            of a batch do not depend on it.
        seed: Seed of the order.
        shuffle: Whether the order is random.
        few_shapes: Whether lengths are 2^n or 3 * 2^n, the same for both sides, and batches of a
            length have the same number of rows, for XLA, which compiles each shape.

    Attributes:
        batch_size: `multiple`, by which `distributed_batches` divides a batch.
        mean_rows: Mean number of pairs of a batch.
        num_examples, num_batches: Numbers of pairs and batches of an epoch.
    """

    one_length = one_count = False

    def __init__(
        self, sources, targets, *, batch_tokens, multiple=1, seed=0, shuffle=True, few_shapes=False
    ):
        if not len(sources):
            raise UserError("There must be at least one sentence pair. Received: none")
        self._sources, self._targets = sources, targets
        self._seed, self._shuffle = seed, shuffle
        self.batch_size = multiple
        self.num_examples = len(sources)
        # With the special token at the end of a source, and at the start or end of a target.
        lengths = np.array([max(len(a), len(b)) + 1 for a, b in zip(sources, targets, strict=True)])
        self._few_shapes = few_shapes
        self._lengths = -(-lengths // STEP) * STEP
        if few_shapes:  # 4, 8, 12, 16, 24, 32, 48, 64, …
            power = 2 ** np.ceil(np.log2(self._lengths)).astype(np.int64)
            between = 3 * power // 4
            self._lengths = np.where(self._lengths <= between, between, power)
        values, counts = np.unique(self._lengths, return_counts=True)
        rows = np.maximum(batch_tokens // values, 1)
        numbers = -(-counts // rows)
        self.num_batches = int(numbers.sum())
        # Start and end of each batch among the pairs sorted by length.
        starts = np.cumsum(counts) - counts
        self._parts = [
            (start + i * size, min(start + (i + 1) * size, start + count))
            for start, count, size, number in zip(starts, counts, rows, numbers, strict=True)
            for i in range(number)
        ]
        self._rows = dict(zip(values.tolist(), rows.tolist(), strict=True))
        self.mean_rows = self.num_examples / self.num_batches
        self._newest = (None, None, None)

    def batch(self, index, first, last):
        """Returns rows `[first, last) / batch_size` of a batch as a dict of arrays."""
        rows, length = self.numbers(index), None
        count = len(rows)
        if self._few_shapes:
            length = int(self._lengths[rows[0]])
            count = self._rows[length]
        count = -(-count // self.batch_size) * self.batch_size
        share = slice(first * count // self.batch_size, last * count // self.batch_size)
        batch = pad_pairs(
            [self._sources[row] for row in rows],
            [self._targets[row] for row in rows],
            count,
            length,
        )
        return {name: array[share] for name, array in batch.items()}

    def numbers(self, index):
        """Returns the numbers of the pairs of a batch."""
        epoch, number = divmod(index, self.num_batches)
        order, batches = self._epoch(epoch)
        start, end = self._parts[batches[number]]
        return order[start:end]

    def _epoch(self, epoch):
        """Returns the pairs sorted by length, and the order of the batches."""
        if not self._shuffle:
            epoch = 0
        if self._newest[0] != epoch:
            order, batches = np.arange(self.num_examples), np.arange(self.num_batches)
            if self._shuffle:
                # The raw output of Philox is the same in all versions of NumPy, permutations not.
                random = np.random.Philox(np.random.SeedSequence([self._seed, epoch]))
                order, batches = (
                    np.argsort(random.random_raw(count), kind="stable")
                    for count in (self.num_examples, self.num_batches)
                )
            order = order[np.argsort(self._lengths[order], kind="stable")]
            self._newest = (epoch, order, batches)
        return self._newest[1:]


def pad_pairs(sources, targets, count=None, length=None):
    """Returns pairs as a batch of `Transformer`.

    Args:
        sources, targets: Lists of arrays of token ids, without special tokens.
        count: Number of rows, the last of which are empty; None: the number of pairs.
        length: Length of both sides; None: the length of the longest one, rounded up to a multiple
            of `STEP`.
    """
    count = count or len(sources)
    lengths = [
        length or -(-(max(map(len, side)) + 1) // STEP) * STEP for side in (sources, targets)
    ]
    source, target, label = (
        np.full((count, length), PAD_ID, np.int32) for length in (lengths[0], *2 * [lengths[1]])
    )
    for row, (one, other) in enumerate(zip(sources, targets, strict=True)):
        source[row, : len(one)], source[row, len(one)] = one, END_ID
        target[row, 0], target[row, 1 : len(other) + 1] = BEGIN_ID, other
        label[row, : len(other)], label[row, len(other)] = other, END_ID
    return {
        "token_ids": source,
        "padding_mask": (source != PAD_ID).astype(np.int32),
        "target_ids": target,
        "label": label,
        "sample_weight": (label != PAD_ID).astype(np.float32),
    }
