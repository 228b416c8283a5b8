"""Sums of losses and metrics over the batches of an evaluation, for evaluators of engines."""

import numpy as np
from keras import ops


def evaluation_sums(model, trainable, others, batch, rows=None):
    """Evaluates a batch without side effects, so that a backend can compile it.

    Args:
        model: A built task model.
        trainable: Values of its trainable variables.
        others: Values of its non-trainable variables.
        batch: Dict of tensors.
        rows: Name of the output to return; None: no output.

    Returns:
        `(losses, metrics, output)`: `{name: (sum, weight)}` for each `<name>_loss` and for each
        metric, and the output in float32, or `()`.
    """
    outputs, _ = model.stateless_call(trainable, others, batch, training=False)
    weights = model.loss_weights(batch)
    errors = model.loss_errors(outputs, batch)
    losses = {f"{name}_loss": (errors[name], weights[name]) for name in weights}
    metrics = model.metric_sums(outputs, batch)
    return losses, metrics, ops.cast(outputs[rows], "float32") if rows else ()


class Totals:
    """Sums the results of `evaluation_sums` over batches."""

    def __init__(self):
        self._losses, self._sums, self._rows = set(), {}, []

    def add(self, losses, metrics, output=()):
        """Adds the sums over all rows of a batch, and the output of all rows if there is one."""
        self._losses.update(losses)
        for name, (value, weight) in {**losses, **metrics}.items():
            total = self._sums.setdefault(name, np.zeros(2))
            total += [float(value), float(weight)]
        if len(output):
            self._rows.append(ops.convert_to_numpy(output))

    def results(self):
        """Returns the result of `Evaluator.run`."""
        means = {
            name: float(value / weight) if weight else 0.0
            for name, (value, weight) in self._sums.items()
        }
        means["loss"] = sum(mean for name, mean in means.items() if name in self._losses)
        return means, _joined(self._rows) if self._rows else None


def _joined(batches):
    """Returns the rows of all batches as one array, padded with 0 to the same length."""
    shape = np.max([batch.shape[1:] for batch in batches], axis=0)
    return np.concatenate(
        [
            np.pad(batch, [(0, 0), *((0, int(more)) for more in shape - batch.shape[1:])])
            for batch in batches
        ]
    )
