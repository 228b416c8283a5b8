"""Batches of sentence pairs, of about as many tokens each."""

import numpy as np

from keras_attn.errors import UserError
from keras_attn.text.subwords import BEGIN_ID, END_ID, PAD_ID

STEP = 4  # lengths of batches are multiples of it


class TranslationBatches:
    """Batches of similar length; a pure function of seed and number.

    The pairs of an epoch are dealt anew into batches whose longer side has one length, up to a
    multiple of `STEP`, and which have as many rows as `batch_tokens` allows. Batches come in random
    order, or without `shuffle` shortest first, each pair once.

    Args:
        sources, targets: Lists of arrays of token ids, without marks.
        batch_tokens: Tokens of the longer side of a batch at most, padding counted; a batch has
            one pair at least.
        multiple: Rows are filled up to a multiple of it, with weight 0; the pairs of a batch do
            not depend on it.
        seed: Of the order.
        shuffle: Whether the order is random.
        few_shapes: Whether lengths are powers of two and halfway between, both sides have the same
            and all batches of it as many rows, for XLA, which compiles each shape.

    Attributes:
        batch_size: `multiple`, by which `distributed_batches` divides a batch.
        mean_rows: Pairs of a batch, on average.
        num_examples, num_batches: Of an epoch.
    """

    one_length = one_count = False

    def __init__(
        self, sources, targets, *, batch_tokens, multiple=1, seed=0, shuffle=True, few_shapes=False
    ):
        if not len(sources):
            raise UserError("At least one sentence is needed. Received: none")
        self._sources, self._targets = sources, targets
        self._seed, self._shuffle = seed, shuffle
        self.batch_size = multiple
        self.num_examples = len(sources)
        # With the marks: a source ends with one, a target begins or ends with one.
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
        # Of each batch: where its pairs begin among those sorted by length, and end.
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
        """Its rows from `first / batch_size` to `last / batch_size` of them: a dict of arrays."""
        rows, width = self.numbers(index), None
        count = len(rows)
        if self._few_shapes:
            width = int(self._lengths[rows[0]])
            count = self._rows[width]
        count = -(-count // self.batch_size) * self.batch_size
        share = slice(first * count // self.batch_size, last * count // self.batch_size)
        batch = pad_pairs(
            [self._sources[row] for row in rows], [self._targets[row] for row in rows], count, width
        )
        return {name: array[share] for name, array in batch.items()}

    def numbers(self, index):
        """Numbers of the pairs of a batch."""
        epoch, number = divmod(index, self.num_batches)
        order, batches = self._epoch(epoch)
        start, end = self._parts[batches[number]]
        return order[start:end]

    def _epoch(self, epoch):
        """Pairs sorted by length, and the order of the batches."""
        if not self._shuffle:
            epoch = 0
        if self._newest[0] != epoch:
            order, batches = np.arange(self.num_examples), np.arange(self.num_batches)
            if self._shuffle:
                # Philox's bits are the same in every NumPy, its permutations need not be.
                random = np.random.Philox(np.random.SeedSequence([self._seed, epoch]))
                order, batches = (
                    np.argsort(random.random_raw(count), kind="stable")
                    for count in (self.num_examples, self.num_batches)
                )
            order = order[np.argsort(self._lengths[order], kind="stable")]
            self._newest = (epoch, order, batches)
        return self._newest[1:]


def pad_pairs(sources, targets, count=None, width=None):
    """Pairs as arrays, as `Transformer` takes them.

    Args:
        sources, targets: Lists of arrays of token ids, without marks.
        count: Rows, of which those past the pairs are empty; None: as many as pairs.
        width: Tokens of both sides; None: of each what it needs, up to a multiple of `STEP`.
    """
    count = count or len(sources)
    widths = [width or -(-(max(map(len, side)) + 1) // STEP) * STEP for side in (sources, targets)]
    source, target, label = (
        np.full((count, width), PAD_ID, np.int32) for width in (widths[0], widths[1], widths[1])
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
