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
            `multiple` rows at least.
        multiple: Rows are a multiple of it; what fills up has weight 0.
        seed: Of the order.
        shuffle: Whether the order is random.

    Attributes:
        batch_size: `multiple`, by which `distributed_batches` divides a batch.
        num_examples, num_batches: Of an epoch.
    """

    one_length = one_count = False

    def __init__(self, sources, targets, *, batch_tokens, multiple=1, seed=0, shuffle=True):
        if not len(sources):
            raise UserError("At least one sentence is needed. Received: none")
        self._sources, self._targets = sources, targets
        self._seed, self._shuffle = seed, shuffle
        self.batch_size = multiple
        self.num_examples = len(sources)
        # With the marks: a source ends with one, a target begins or ends with one.
        lengths = np.array([max(len(a), len(b)) + 1 for a, b in zip(sources, targets, strict=True)])
        self._lengths = -(-lengths // STEP) * STEP
        values, counts = np.unique(self._lengths, return_counts=True)
        rows = np.maximum(batch_tokens // values // multiple, 1) * multiple
        numbers = -(-counts // rows)
        self.num_batches = int(numbers.sum())
        # Of each batch: where its pairs begin among those sorted by length, and end.
        starts = np.cumsum(counts) - counts
        self._parts = [(start + i * size, min(start + (i + 1) * size, start + count))
                       for start, count, size, number in zip(starts, counts, rows, numbers,
                                                             strict=True)
                       for i in range(number)]
        self._newest = (None, None, None)

    def batch(self, index, first, last):
        """Its rows from `first / batch_size` to `last / batch_size` of them: a dict of arrays."""
        rows = self.numbers(index)
        count = -(-len(rows) // self.batch_size) * self.batch_size
        share = slice(first * count // self.batch_size, last * count // self.batch_size)
        return self.arrays(rows, count, share)

    def numbers(self, index):
        """Numbers of the pairs of a batch."""
        epoch, number = divmod(index, self.num_batches)
        order, batches = self._epoch(epoch)
        start, end = self._parts[batches[number]]
        return order[start:end]

    def arrays(self, rows, count=None, share=slice(None)):
        """Pairs as arrays, as `Transformer` takes them.

        Args:
            rows: Numbers of pairs.
            count: Rows of the batch, of which those past `rows` are empty.
            share: Of them, those wanted.
        """
        count = count or len(rows)
        sources, targets = [self._sources[row] for row in rows], [self._targets[r] for r in rows]
        widths = [-(-(max(map(len, side)) + 1) // STEP) * STEP for side in (sources, targets)]
        source, target, label = (np.full((count, width), PAD_ID, np.int32)
                                 for width in (widths[0], widths[1], widths[1]))
        for row, (one, other) in enumerate(zip(sources, targets, strict=True)):
            source[row, :len(one)], source[row, len(one)] = one, END_ID
            target[row, 0], target[row, 1:len(other) + 1] = BEGIN_ID, other
            label[row, :len(other)], label[row, len(other)] = other, END_ID
        found = {"token_ids": source, "padding_mask": (source != PAD_ID).astype(np.int32),
                 "target_ids": target, "label": label,
                 "sample_weight": (label != PAD_ID).astype(np.float32)}
        return {name: array[share] for name, array in found.items()}

    def _epoch(self, epoch):
        """Pairs sorted by length, and the order of the batches."""
        if not self._shuffle:
            epoch = 0
        if self._newest[0] != epoch:
            order, batches = np.arange(self.num_examples), np.arange(self.num_batches)
            if self._shuffle:
                # Philox's bits are the same in every NumPy, its permutations need not be.
                random = np.random.Philox(np.random.SeedSequence([self._seed, epoch]))
                order, batches = (np.argsort(random.random_raw(count), kind="stable")
                                  for count in (self.num_examples, self.num_batches))
            order = order[np.argsort(self._lengths[order], kind="stable")]
            self._newest = (epoch, order, batches)
        return self._newest[1:]
