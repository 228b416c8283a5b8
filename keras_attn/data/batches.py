"""Global batches of examples.

Global batch s consists of rows of a stream that is a pure function of its seed. Replica r of R uses
its rows [r * B / R, (r + 1) * B / R). So any number of devices and workers trains on the same
global batches, and the step s is the only state that a run needs to resume.
"""

import numpy as np

from keras_attn.data.packing import choose_rows, pack


class StreamBatches:
    """Batches of a source with `num_examples` and `rows(start, stop)`.

    Rows follow one another across epochs; none is dropped.

    Args:
        source: `PretrainingExamples` or `TFRecordExamples`.
        batch_size: Rows of a global batch.
        once: Whether to iterate for one epoch, for evaluation; the last batch is padded with rows
            of weight 0.
        limit: With `once`: maximum number of rows, evenly spaced over the epoch.
    """

    one_length = one_count = True
    expected_steps = None  # number of steps of the run, as far as known

    def __init__(self, source, batch_size, once=False, limit=None):
        if once and getattr(source, "pack", 1) > 1:
            raise ValueError(
                "StreamBatches: once=True requires one example per row, as rows are "
                f"weighted individually. Received: pack={source.pack}"
            )
        self.source = source
        self.batch_size = self.mean_rows = batch_size
        self.once = once
        self.num_examples = min(source.num_examples, limit or source.num_examples)
        self.num_batches = -(-self.num_examples // batch_size)

    def batch(self, index, first, last):
        """Returns rows [first, last) of global batch `index` as a dictionary of arrays."""
        start = index * self.batch_size
        if not self.once:
            if self.expected_steps and hasattr(self.source, "expected_rows"):
                self.source.expected_rows = self.expected_steps * self.batch_size
            return self.source.rows(start + first, start + last)
        wanted = np.arange(start + first, start + last)
        weight = (wanted < self.num_examples).astype(np.float32)
        batch = self._select_rows(np.minimum(wanted, self.num_examples - 1))
        return {**batch, "sample_weight": weight * batch.get("sample_weight", 1.0)}

    def _select_rows(self, numbers):
        if self.num_examples < self.source.num_examples:
            numbers = numbers * self.source.num_examples // self.num_examples
        first, last = int(numbers[0]), int(numbers[-1]) + 1
        if last - first <= 2 * len(numbers):
            rows = self.source.rows(first, last)
            return {name: array[numbers - first] for name, array in rows.items()}
        rows = [self.source.rows(int(n), int(n) + 1) for n in numbers]
        return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}


class TableBatches:
    """Batches of a source that makes whole batches: `batch(index)`.

    Args:
        source: `TextExamples`.
        pack: Maximum number of examples per row, with the row length chosen by the source. With
            more than 1, batches have fewer rows than examples, and their number varies.
        multiple: With `pack`: the number of rows is a multiple of this.
        counts: With `pack`: maximum number of distinct row counts, each of which XLA compiles
            separately. None: unlimited.
    """

    def __init__(self, source, pack=1, multiple=1, counts=None):
        self.source = source
        self.pack = pack
        self.one_count = pack == 1
        self._multiple = multiple
        self._counts = counts
        self.batch_size = self.mean_rows = source.batch_size
        self.num_examples = source.num_examples
        self.num_batches = source.num_batches
        self.one_length = len(source.buckets) == 1
        self._newest = (None, None)

    def batch(self, index, first, last):
        """Returns rows [first, last) of global batch `index` as a dictionary of arrays."""
        if self._newest[0] != index:
            self._newest = (index, self.source.batch(index))
        rows = {name: array[first:last] for name, array in self._newest[1].items()}
        if self.pack == 1:
            return rows
        multiple = self._multiple
        if self._counts:
            multiple *= -(-(last - first) // (self._counts * multiple))
        return self._pack(rows, multiple)

    def _pack(self, examples, multiple):
        examples = {name: array[examples["sample_weight"] > 0] for name, array in examples.items()}
        length = examples["token_ids"].shape[1]
        rows = choose_rows(examples["padding_mask"].sum(axis=1), length, self.pack)
        order = np.argsort(rows, kind="stable")
        count = rows.max(initial=0) + 1
        return pack(
            {name: array[order] for name, array in examples.items()},
            rows[order],
            count=-(-count // multiple) * multiple,
            length=length,
            most=self.pack,
            pad_id=self.source.pad_id,
        )
