"""Selection of the best evaluation of a run, and early stopping."""

import math


def score(value, lower_is_better):
    """Returns a number that is higher for better values of a metric, the lowest for NaN."""
    if math.isnan(value):
        return -math.inf
    return -value if lower_is_better else value


class Best:
    """Compares the evaluations of a run by one metric.

    Args:
        metric: Name of the metric in the results of the evaluations.
        patience: Number of consecutive evaluations without a better one that ends the run; None:
            no early stopping.
        lower_is_better: Whether lower values of the metric are better.

    Attributes:
        state: JSON-able, for the checkpoints: the `metric`, the `step` of the best evaluation,
            its results `found`, and the number of evaluations `since` that were not better.
    """

    def __init__(self, metric, patience=None, lower_is_better=False):
        self.metric = metric
        self.patience = patience
        self.lower_is_better = lower_is_better
        self.restore(None)

    def restore(self, state):
        """Restores the state of a checkpoint; None or the state of another metric resets it."""
        self.state = {"metric": self.metric, "step": None, "found": None, "since": 0}
        if state and state["metric"] == self.metric:
            self.state = state

    @property
    def exhausted(self):
        """Whether `patience` has run out."""
        return self.patience is not None and self.state["since"] >= self.patience

    def add(self, step, found):
        """Adds an evaluation and returns whether it is the best; the first of equal ones is."""
        best = self.state["found"]
        if best and not self._score(found) > self._score(best):
            self.state = {**self.state, "since": self.state["since"] + 1}
            return False
        self.state = {**self.state, "step": step, "found": dict(found), "since": 0}
        return True

    def _score(self, found):
        return score(found[self.metric], self.lower_is_better)
