"""The training step, with the same result on one device, several devices and several workers.

The weights of each loss (masked tokens, sentence pairs) are summed over the global batch before
any gradient. Each replica then differentiates its terms of `sum over losses of error / weight` in
a function of tensors, which XLA can compile as a whole. Gradients are summed over replicas once,
clipped by their global norm, checked and applied: there is no mean of means, and no clipping per
replica. In float16 the loss is scaled, and a step whose gradients overflow is skipped.
"""

import functools

import numpy as np
import tensorflow as tf

from keras_attn.ops.kernels import tensorflow_replicas as replicas
from keras_attn.ops.kernels.tensorflow_graphs import traced
from keras_attn.training.engines.contract import Step
from keras_attn.training.engines.model_calls import training_outputs
from keras_attn.training.engines.tensorflow.feed import distributed_batches
from keras_attn.training.loss_scale import LossScale
from keras_attn.training.variables import variables_by_path


class TensorFlowStep(Step):
    """The step of a `TensorFlowEngine`; see `Engine.make_step`."""

    def __init__(self, engine, model, optimizer, *, accumulate=1, clip_norm=1.0, jit=False, seed=0):
        self.engine = engine
        self.strategy = strategy = engine.strategy
        self.model = model
        self.optimizer = optimizer
        self.accumulate = accumulate
        self.clip_norm = clip_norm
        self.seed = seed
        self.loss_scale = None
        self._names = ()  # names of the values of a record, set when a step is traced
        if model.dtype_policy.name == "mixed_float16":
            with strategy.scope():
                self.loss_scale = LossScale()
        self._others = [*model.non_trainable_variables, *getattr(model, "constants", ())]
        self._gradients = traced(self._sum_micro_batches, jit)
        parts = strategy.num_replicas_in_sync * accumulate
        self._gathers = parts > 1 and getattr(model, "gathered_outputs", ())
        self._outputs = traced(self._micro_batch_outputs, jit)
        self._loop = tf.function(self._run, autograph=False)

    def variables(self):
        return variables_by_path(self.model, self.optimizer, self.loss_scale)

    def feed(self, batches, first_step):
        feed = distributed_batches(
            batches, self.strategy, start=first_step, accumulate=self.accumulate
        )
        with feed.taking():
            feed.iterator  # noqa: B018 - starts reading
        return feed

    def run(self, feed, first_step, learning_rates):
        """See `Step.run`; in float16 a record also has `loss_scale` and `skipped`.

        `skipped` is 1 for a step that was skipped because a gradient overflowed; its
        `gradient_norm` is then 0.
        """
        # Padded to a fixed shape, so that the loop is traced once for any number of steps.
        padded = np.zeros(self.max_steps, np.float32)
        padded[: len(learning_rates)] = learning_rates
        with feed.taking():
            table = self._loop(
                feed.iterator,
                tf.constant(first_step),
                tf.constant(len(learning_rates)),
                tf.constant(padded),
            )
        return [dict(zip(self._names, row, strict=True)) for row in table.numpy().tolist()]

    def _run(self, batches, first_step, steps, learning_rates):
        def body(i, healthy, records):
            record, healthy = self._step(next(batches), first_step + i, learning_rates[i])
            return i + 1, healthy, records.write(i, record)

        taken, _, records = tf.while_loop(
            lambda i, healthy, records: tf.logical_and(i < steps, healthy),
            body,
            (0, True, tf.TensorArray(tf.float32, size=steps, infer_shape=False)),
            parallel_iterations=1,
        )
        # `stack` would fail for records that were not written.
        return records.gather(tf.range(taken))

    def _step(self, batch, step, learning_rate):
        # Not compiled with XLA, because it contains the sums over replicas.
        scale = self.loss_scale.read() if self.loss_scale else tf.constant(1.0)
        results = self.strategy.run(self._replica_step, args=(batch, step, scale))
        gradients, factor, record, finite = tf.nest.map_structure(self._any_replica, results)
        sound = tf.math.is_finite(record["loss"])
        use = keep_going = sound & finite
        if self.loss_scale:
            self.loss_scale.update(finite)
            keep_going = sound & (finite | (scale > 1.0))  # the scale cannot be below 1
            skipped = keep_going & ~use
            record["gradient_norm"] = tf.where(skipped, 0.0, record["gradient_norm"])
            record |= {"loss_scale": scale, "skipped": tf.cast(skipped, tf.float32)}

        def apply():
            # Outside the replicas the optimizer does not sum the gradients again.
            self.optimizer.learning_rate.assign(learning_rate)
            self.optimizer.apply(gradients, self.model.trainable_variables, factor)
            return keep_going

        self._names = list(record)
        return tf.stack(list(record.values())), tf.cond(use, apply, lambda: keep_going)

    def _any_replica(self, value):
        return self.strategy.experimental_local_results(value)[0]

    def _replica_step(self, batch, step, scale):
        context = tf.distribute.get_replica_context()
        rows = {
            name: tf.reshape(x, tf.concat([[-1], tf.shape(x)[2:]], 0)) for name, x in batch.items()
        }
        weights = replicas.summed(self.model.loss_weights(rows))
        scales = {name: tf.math.divide_no_nan(1.0, weight) for name, weight in weights.items()}
        seed = tf.constant([self.seed & 0x7FFFFFFF, 0], tf.int32)
        for number in (step, context.replica_id_in_sync_group):
            seed = tf.random.experimental.stateless_fold_in(seed, number)
        variables = [
            [tf.convert_to_tensor(v.value) for v in own]
            for own in (self.model.trainable_variables, self._others)
        ]
        gathered = self._gather(context, variables, batch, seed) if self._gathers else {}
        sums = self._gradients(
            *variables,
            batch,
            {name: factor * scale for name, factor in scales.items()},
            seed,
            gathered,
        )
        tokens = tf.reduce_sum(tf.cast(rows["padding_mask"], tf.float32))
        (gradients, errors, metrics), tokens = replicas.summed((sums, tokens))

        losses = {name: errors[name] * scales[name] for name in sorted(scales)}
        loss = tf.add_n(list(losses.values()))
        norm = tf.linalg.global_norm(gradients) / scale
        factor = 1.0 / scale
        if self.clip_norm:
            factor *= self.clip_norm / tf.maximum(norm, self.clip_norm)
        record = {"loss": loss, "gradient_norm": norm, "tokens": tokens}
        record.update({f"{name}_loss": value for name, value in losses.items()})
        for name in sorted(metrics):
            record[name] = tf.math.divide_no_nan(*metrics[name])
        return gradients, factor, record, tf.math.is_finite(norm)

    def _gather(self, context, variables, batch, seed):
        """Returns the outputs that the loss requires of the global batch, and where ours begin.

        The loss has the same value and gradient as in one batch on one device, for twice the time
        of the forward pass.

        Reference:
            Gao et al., Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup,
            2021.
        """
        own = self._outputs(*variables, batch, seed)
        own |= {name: batch[name] for name in self.model.gathered_inputs if name in batch}
        rows = {
            f"gathered_{name}": tf.reshape(x, tf.concat([[-1], tf.shape(x)[2:]], 0))
            for name, x in own.items()
        }
        if self.strategy.num_replicas_in_sync > 1:
            rows = {name: context.all_gather(x, axis=0) for name, x in rows.items()}
        count = tf.reduce_prod(tf.shape(batch["sample_weight"]))
        return {**rows, "gathered_start": context.replica_id_in_sync_group * count}

    def _micro_batch_outputs(self, trainable, others, batch, seed):
        def outputs(i):
            found = self._call(
                trainable,
                others,
                {name: x[i] for name, x in batch.items()},
                tf.random.experimental.stateless_fold_in(seed, i),
            )
            return {name: found[name] for name in self._gathers}

        if self.accumulate == 1:
            return {name: x[None] for name, x in outputs(0).items()}
        like = tf.function(outputs, autograph=False).get_concrete_function(0).structured_outputs
        return tf.map_fn(
            outputs,
            tf.range(self.accumulate),
            fn_output_signature={name: tf.TensorSpec(x.shape, x.dtype) for name, x in like.items()},
            parallel_iterations=1,  # more would store several micro-batches at a time
        )

    def _sum_micro_batches(self, trainable, others, batch, scales, seed, gathered=None):
        def micro_batch(i):
            own = {name: x[i] for name, x in batch.items()}
            if gathered:
                own |= gathered
                own["gathered_start"] += i * tf.shape(own["sample_weight"])[0]
            return self._micro_batch(
                trainable,
                others,
                own,
                scales,
                tf.random.experimental.stateless_fold_in(seed, i),
            )

        if self.accumulate == 1:
            return micro_batch(0)
        like = tf.function(micro_batch, autograph=False).get_concrete_function(0).structured_outputs
        zeros = tf.nest.map_structure(lambda x: tf.zeros(x.shape, x.dtype), like)
        return tf.while_loop(
            lambda i, sums: i < self.accumulate,
            lambda i, sums: (i + 1, tf.nest.map_structure(tf.add, sums, micro_batch(i))),
            (0, zeros),
            maximum_iterations=self.accumulate,
            parallel_iterations=1,  # more would store several micro-batches at a time
        )[1]

    def _call(self, trainable, others, batch, seed):
        fold = functools.partial(self._fold, seed)
        return training_outputs(self.model, self._others, trainable, others, batch, fold)

    def _micro_batch(self, trainable, others, batch, scales, seed):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(trainable)
            outputs = self._call(trainable, others, batch, seed)
            errors = self.model.loss_errors(outputs, batch)
            loss = tf.add_n([errors[name] * scales[name] for name in sorted(scales)])
        gradients = tape.gradient(loss, trainable, unconnected_gradients="zero")
        # The sparse gradients of embeddings can neither be summed over replicas under XLA nor be
        # clipped by norm with repeated rows. With variable lengths, the gradient of the position
        # embeddings has an unknown shape.
        gradients = [
            tf.ensure_shape(tf.convert_to_tensor(gradient), value.shape)
            for gradient, value in zip(gradients, trainable, strict=True)
        ]
        return gradients, errors, self.model.metric_sums(outputs, batch)

    @staticmethod
    def _fold(seed, number):
        return tf.cast(tf.random.experimental.stateless_fold_in(seed, number), tf.uint32)
