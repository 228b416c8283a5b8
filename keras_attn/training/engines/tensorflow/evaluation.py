"""Evaluation that counts every example once, on any number of replicas."""

import tensorflow as tf

from keras_attn.ops.kernels import tensorflow_replicas as replicas
from keras_attn.ops.kernels.tensorflow_graphs import traced
from keras_attn.training.engines.contract import Evaluator
from keras_attn.training.engines.tensorflow.feed import distributed_batches
from keras_attn.training.evaluation import Totals, evaluation_sums


class TensorFlowEvaluator(Evaluator):
    """The evaluator of a `TensorFlowEngine`; see `Engine.make_evaluator`."""

    def __init__(self, engine, model, *, jit=False, rows=None):
        self.model = model
        self.strategy = engine.strategy
        self.rows = rows
        self._forward = traced(self._stateless, jit)
        self._batch = tf.function(self._on_replicas, autograph=False, reduce_retracing=True)

    def run(self, batches, stop=lambda: False):
        feed = distributed_batches(batches, self.strategy, start=0, stop=batches.num_batches)
        totals = Totals()
        with feed.taking():
            for number, batch in enumerate(feed):
                if number and stop():
                    return None
                totals.add(*self._batch(batch))
        return totals.results()

    def _on_replicas(self, batch):
        losses, metrics, output = self.strategy.run(self._replica, args=(batch,))
        first = lambda value: self.strategy.experimental_local_results(value)[0]  # noqa: E731
        rows = self.strategy.gather(output, axis=0) if self.rows else ()
        return *tf.nest.map_structure(first, (losses, metrics)), rows

    def _replica(self, batch):
        losses, metrics, output = self._forward(
            [tf.convert_to_tensor(v.value) for v in self.model.trainable_variables],
            [tf.convert_to_tensor(v.value) for v in self.model.non_trainable_variables],
            batch,
        )
        return *replicas.summed((losses, metrics)), output

    def _stateless(self, trainable, others, batch):
        return evaluation_sums(self.model, trainable, others, batch, self.rows)
