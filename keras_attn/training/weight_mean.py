"""The mean of the weights over the end of a run."""

import numpy as np

PREFIX = "mean/"  # of the paths in a checkpoint
SAMPLES = 64


class WeightMean:
    """Mean of the weights after evenly spaced steps of the last fraction of a run.

    Args:
        fraction: Fraction of the run, in (0, 1].
        total_steps: Number of steps of the run. At most about 64 steps count, among them the last
            one. None: `total_seconds` ends the run, and each call of `add` counts.
        total_seconds: Training time of the run.

    Attributes:
        values: Mean arrays by path; empty before the first step that counts.
        count: Number of these steps.

    Reference:
        Izmailov et al., Averaging Weights Leads to Wider Optima and Better Generalization, 2018.
    """

    def __init__(self, fraction, total_steps=None, total_seconds=None):
        self.values, self.count = {}, 0
        self._start_seconds = None if total_steps else (1 - fraction) * total_seconds
        if total_steps:
            self._total, steps = total_steps, max(1, round(fraction * total_steps))
            self._every = -(-steps // SAMPLES)
            self._first = total_steps - (steps - 1) // self._every * self._every

    def steps_left(self, step):
        """Returns the number of steps to the next one that counts; None if the clock decides."""
        if self._start_seconds is not None:
            return None
        if step < self._first:
            return self._first - step
        return (self._total - step - 1) % self._every + 1

    def add(self, step, seconds, read):
        """Adds the current weights, if they count.

        Args:
            step: Number of steps so far.
            seconds: Training time so far.
            read: Function that returns their arrays by path.
        """
        if self._start_seconds is not None:
            counts = seconds > self._start_seconds
        else:
            counts = step >= self._first and (self._total - step) % self._every == 0
        if not counts:
            return
        self.count += 1
        for path, value in read().items():
            mean = self.values.get(path, np.zeros_like(value))
            self.values[path] = mean + (value - mean) / np.float32(self.count)

    def in_checkpoint(self):
        """Returns the arrays under their paths in a checkpoint."""
        return {f"{PREFIX}{path}": value for path, value in self.values.items()}

    def restore(self, values, count):
        """Continues from a checkpoint.

        Args:
            values: All arrays of the checkpoint, from which those of the mean are removed.
            count: Number of steps that counted.
        """
        paths = [path for path in values if path.startswith(PREFIX)]
        self.values = {path.removeprefix(PREFIX): values.pop(path) for path in paths}
        self.count = count
