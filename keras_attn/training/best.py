"""Which evaluation of a run was the best, and the end of a run that finds no better one."""

import math

LOWER_IS_BETTER = ("loss", "mean_squared_error")


def score(metric, found):
    """Of an evaluation by one metric: the higher, the better."""
    value = -found[metric] if metric in LOWER_IS_BETTER else found[metric]
    return -math.inf if math.isnan(value) else value


class Best:
    """Compares the evaluations of a run by one metric.

    Args:
        metric: Name in what the evaluations find.
        patience: Evaluations in a row without a better one after which the run ends; None: never.

    Attributes:
        state: JSON-able, for the checkpoints: the `metric`, the `step` of the best evaluation,
            what it `found`, and how many evaluations `since` were no better.
    """

    def __init__(self, metric, patience=None):
        self.metric = metric
        self.patience = patience
        self.restore(None)

    def restore(self, state):
        """Takes the state of a checkpoint, or None: that of a new run, or of another metric."""
        self.state = {"metric": self.metric, "step": None, "found": None, "since": 0}
        if state and state["metric"] == self.metric:
            self.state = state

    @property
    def exhausted(self):
        """Whether the run has waited long enough for a better evaluation."""
        return self.patience is not None and self.state["since"] >= self.patience

    def add(self, step, found):
        """Counts an evaluation; returns whether it is the best, of equal ones the first."""
        best = self.state["found"]
        if best and not score(self.metric, found) > score(self.metric, best):
            self.state = {**self.state, "since": self.state["since"] + 1}
            return False
        self.state = {**self.state, "step": step, "found": dict(found), "since": 0}
        return True
