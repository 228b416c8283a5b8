"""Sums of losses and metrics over the batches of an evaluation, for the evaluators of engines."""

import numpy as np
from keras import ops


def evaluation_sums(model, trainable, others, batch, rows=None):
    """Evaluates a batch; changes no variable, so that a backend may compile it.

    Args:
        model: A built task model.
        trainable: Values of its trainable variables.
        others: Values of its other variables.
        batch: Dict of tensors.
        rows: Name of an output to return; None: none.

    Returns:
        `(sums, output)`: `{name: (sum, weight)}` of each `<name>_loss` and metric, and the output
        in float32, or `()`.
    """
    outputs, _ = model.stateless_call(trainable, others, batch, training=False)
    weights = model.loss_weights(batch)
    errors = model.loss_errors(outputs, batch)
    sums = {f"{name}_loss": (errors[name], weights[name]) for name in weights}
    sums.update(model.metric_sums(outputs, batch))
    return sums, ops.cast(outputs[rows], "float32") if rows else ()


class Totals:
    """Adds up what `evaluation_sums` returns for each batch."""

    def __init__(self):
        self._sums, self._rows = {}, []

    def add(self, sums, output=()):
        """Adds a batch: sums over all its rows, and the output of all its rows if there is one."""
        for name, (value, weight) in sums.items():
            total = self._sums.setdefault(name, np.zeros(2))
            total += [float(value), float(weight)]
        if len(output):
            self._rows.append(ops.convert_to_numpy(output))

    def results(self):
        """Returns what `Evaluator.run` returns."""
        means = {
            name: float(value / weight) if weight else 0.0
            for name, (value, weight) in self._sums.items()
        }
        means["loss"] = sum(mean for name, mean in means.items() if name.endswith("_loss"))
        return means, _joined(self._rows) if self._rows else None


def _joined(batches):
    """Rows of all batches as one array, padded with 0 where they differ in length."""
    shape = np.max([batch.shape[1:] for batch in batches], axis=0)
    return np.concatenate(
        [
            np.pad(batch, [(0, 0), *((0, int(more)) for more in shape - batch.shape[1:])])
            for batch in batches
        ]
    )
