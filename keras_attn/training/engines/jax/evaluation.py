"""Evaluation on the devices of a mesh."""

import contextlib

import jax

from keras_attn.training.engines.contract import Evaluator
from keras_attn.training.engines.jax.feed import Feed
from keras_attn.training.evaluation import Totals, evaluation_sums


class JaxEvaluator(Evaluator):
    """The evaluator of a `JaxEngine`; see `Engine.make_evaluator`."""

    def __init__(self, engine, model, *, jit=False, rows=None):
        self.engine = engine
        self.model = model
        self.rows = rows
        self._batch = jax.jit(self._sums, out_shardings=engine.replicated)

    def run(self, batches, stop=lambda: False):
        trainable, others = (
            self.engine.values(own, self.engine.shardings(own))
            for own in (self.model.trainable_variables, self.model.non_trainable_variables)
        )
        totals, computed = Totals(), None
        with contextlib.closing(Feed(batches, end=batches.num_batches)) as feed:
            for number in range(batches.num_batches):
                if number and stop():
                    return None
                rows = self.engine.divide_rows(feed.take())
                computed, last = self._batch(trainable, others, rows), computed
                if last:  # while the devices compute this batch
                    totals.add(*jax.device_get(last))
        totals.add(*jax.device_get(computed))
        return totals.results()

    def _sums(self, trainable, others, batch):
        return evaluation_sums(self.model, trainable, others, batch, self.rows)
