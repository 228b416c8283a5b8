"""Evaluation that counts every example once, on any number of replicas."""

import numpy as np
import tensorflow as tf

from keras_attn.ops.kernels import tensorflow_replicas as replicas
from keras_attn.ops.kernels.tensorflow_graphs import traced
from keras_attn.training.engines.contract import Evaluator
from keras_attn.training.engines.tensorflow.feed import distributed_batches


class TensorFlowEvaluator(Evaluator):
    """The evaluator of a `TensorFlowEngine`; arguments as of `Engine.make_evaluator`."""

    def __init__(self, engine, model, *, jit=False, rows=None):
        self.model = model
        self.strategy = engine.strategy
        self.rows = rows
        self._forward = traced(self._stateless, jit)
        self._batch = tf.function(self._on_replicas, autograph=False, reduce_retracing=True)

    def run(self, batches, stop=lambda: False):
        feed = distributed_batches(batches, self.strategy, start=0, stop=batches.num_batches)
        totals, rows = {}, []
        with feed.taking():
            for number, batch in enumerate(feed):
                if number and stop():
                    return None
                sums, output = self._batch(batch)
                for name, (value, weight) in sums.items():
                    total = totals.setdefault(name, np.zeros(2))
                    total += [float(value), float(weight)]
                if self.rows:
                    rows.append(output.numpy())
        results = {name: float(value / weight) if weight else 0.0
                   for name, (value, weight) in totals.items()}
        results["loss"] = sum(v for name, v in results.items() if name.endswith("_loss"))
        return results, _joined(rows) if rows else None

    def _on_replicas(self, batch):
        sums, output = self.strategy.run(self._replica, args=(batch,))
        first = lambda value: self.strategy.experimental_local_results(value)[0]  # noqa: E731
        rows = self.strategy.gather(output, axis=0) if self.rows else ()
        return tf.nest.map_structure(first, sums), rows

    def _replica(self, batch):
        sums, output = self._forward(
            [tf.convert_to_tensor(v.value) for v in self.model.trainable_variables],
            [tf.convert_to_tensor(v.value) for v in self.model.non_trainable_variables],
            batch,
        )
        return replicas.summed(sums), output

    def _stateless(self, trainable, others, batch):
        outputs, _ = self.model.stateless_call(trainable, others, batch, training=False)
        weights = self.model.loss_weights(batch)
        errors = self.model.loss_errors(outputs, batch)
        sums = {f"{name}_loss": (errors[name], weights[name]) for name in weights}
        sums.update(self.model.metric_sums(outputs, batch))
        return sums, tf.cast(outputs[self.rows], tf.float32) if self.rows else ()


def _joined(batches):
    """Rows of all batches as one array; what is longer in others is filled up with 0."""
    shape = np.max([batch.shape[1:] for batch in batches], axis=0)
    return np.concatenate([
        np.pad(batch, [(0, 0), *((0, int(more)) for more in shape - batch.shape[1:])])
        for batch in batches])
