"""Batches that a thread makes ahead of their use."""

import collections
import concurrent.futures

AHEAD = 2  # batches


class Feed:
    """Makes global batches in a thread.

    Args:
        batches: `StreamBatches` or `TableBatches`.
        first: Number of the first batch.
        end: Number of the batch after the last one; None: no end.
    """

    def __init__(self, batches, first=0, end=None):
        self._batches, self._next, self._end = batches, first, end
        self._thread = concurrent.futures.ThreadPoolExecutor(1)
        self._made = collections.deque()
        for _ in range(AHEAD):
            self._make()

    def _make(self):
        if self._end is None or self._next < self._end:
            arguments = self._next, 0, self._batches.batch_size
            self._made.append(self._thread.submit(self._batches.batch, *arguments))
            self._next += 1

    def take(self):
        """Returns the next batch, a dict of NumPy arrays; raises the error that prevented it."""
        rows = self._made.popleft().result()
        self._make()
        return rows

    def close(self):
        """Ends the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)
