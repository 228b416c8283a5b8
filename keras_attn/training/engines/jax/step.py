"""The training step on JAX, on global arrays: the result does not depend on the devices.

The rows of the batch are divided among the devices, weights and optimizer slots only on request.
The sums over the batch, to which XLA adds those of the other devices, give the loss, its weights
and the gradients, and dropout masks have the shape of the global batch.
"""

import functools

import jax
import keras
import numpy as np
from jax import lax
from jax import numpy as jnp

from keras_attn.training.engines.contract import Step
from keras_attn.training.engines.jax.feed import Feed
from keras_attn.training.engines.model_calls import training_outputs
from keras_attn.training.loss_scale import LossScale
from keras_attn.training.variables import variables_by_path


class JaxStep(Step):
    """The step of a `JaxEngine`; see `Engine.make_step`."""

    def __init__(self, engine, model, optimizer, *, accumulate=1, clip_norm=1.0, jit=False, seed=0):
        self.engine = engine
        self.model = model
        self.optimizer = optimizer
        self.accumulate = accumulate
        self.clip_norm = clip_norm
        self.seed = seed
        self.loss_scale = LossScale() if model.dtype_policy.name == "mixed_float16" else None
        self._names = ()  # names of the values of a record, set when a step is traced
        self._others = [*model.non_trainable_variables, *getattr(model, "constants", ())]
        self._changed = {
            "trainable": model.trainable_variables,
            "optimizer": optimizer.variables,
            "scale": self.loss_scale.variables if self.loss_scale else [],
        }
        self._gathers = accumulate > 1 and getattr(model, "gathered_outputs", ())
        self._shardings = {
            "trainable": engine.shardings(model.trainable_variables),
            "optimizer": engine.slot_shardings(optimizer, model.trainable_variables),
            "scale": [engine.replicated for _ in self._changed["scale"]],
        }
        self._other_shardings = engine.shardings(self._others)
        results = {**self._shardings, "keep_going": engine.replicated}, engine.replicated
        # Donated: XLA reuses the memory of the old values for the new ones.
        self._compiled = jax.jit(self._step, donate_argnums=0, out_shardings=results)

    def variables(self):
        return variables_by_path(self.model, self.optimizer, self.loss_scale)

    def feed(self, batches, first_step):
        return Feed(batches, first_step)

    def run(self, feed, first_step, learning_rates):
        """See `Step.run`; in float16 a record also has `loss_scale` and `skipped`.

        `skipped` is 1 for a step that was skipped because a gradient overflowed; its
        `gradient_norm` is then 0.
        """
        state = {
            kind: self.engine.values(own, self._shardings[kind])
            for kind, own in self._changed.items()
        }
        # An array of NumPy, in place of the result of the step, would compile the step again.
        state["keep_going"] = self.engine.replicate(np.bool_(True))
        others = self.engine.values(self._others, self._other_shardings)
        records = []
        try:
            for number, rate in enumerate(learning_rates, first_step):
                batch = self._divide(feed.take())
                state, record = self._compiled(
                    state, others, batch, np.uint32(number), np.float32(rate)
                )
                records.append(record)
                if len(records) > 2:  # so that the batches of waiting steps fit in memory
                    jax.block_until_ready(records[-3])
        finally:
            for kind, variables in self._changed.items():
                for variable, value in zip(variables, state[kind], strict=True):
                    variable.assign(value)
        records = [
            dict(zip(self._names, map(float, record), strict=True))
            for record in jax.device_get(records)
        ]
        going = [record.pop("keep_going") for record in records]
        return records[: going.index(0) + 1] if 0 in going else records

    def _divide(self, rows):
        rows = {name: x.reshape(self.accumulate, -1, *x.shape[1:]) for name, x in rows.items()}
        return self.engine.divide_rows(rows, axis=1)

    def _step(self, state, others, batch, number, learning_rate):
        trainable = state["trainable"]
        scale = state["scale"][0] if self.loss_scale else jnp.float32(1)
        rows = {name: x.reshape(-1, *x.shape[2:]) for name, x in batch.items()}
        weights = self.model.loss_weights(rows)
        scales = {name: jnp.where(w != 0, 1 / w, 0) for name, w in weights.items()}
        seed = jax.random.fold_in(jax.random.PRNGKey(self.seed & 0x7FFFFFFF), number)
        gradients, errors, metrics = self._sum_micro_batches(
            trainable, others, batch, {name: s * scale for name, s in scales.items()}, seed
        )
        losses = {name: errors[name] * scales[name] for name in sorted(scales)}
        loss = sum(losses.values())
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in gradients)) / scale
        factor = 1 / scale
        if self.clip_norm:
            factor *= self.clip_norm / jnp.maximum(norm, self.clip_norm)
        record = {"loss": loss, "gradient_norm": norm, "tokens": rows["padding_mask"].sum()}
        record |= {f"{name}_loss": value for name, value in losses.items()}
        for name, (value, weight) in sorted(metrics.items()):
            record[name] = jnp.where(weight != 0, value / weight, 0)

        finite, sound = jnp.isfinite(norm), jnp.isfinite(loss) & state["keep_going"]
        use = keep_going = sound & finite
        if self.loss_scale:
            keep_going = sound & (finite | (scale > 1))  # the scale cannot be below 1
            skipped = keep_going & ~use
            record["gradient_norm"] = jnp.where(skipped, 0, norm)
            record |= {"loss_scale": scale, "skipped": skipped}
        record["keep_going"] = keep_going
        self._names = list(record)

        def update():
            slots = [
                learning_rate if variable is self.optimizer.learning_rate else value
                for variable, value in zip(
                    self.optimizer.variables, state["optimizer"], strict=True
                )
            ]
            scaled = [g * factor.astype(g.dtype) for g in gradients]
            return self.optimizer.stateless_apply(slots, scaled, trainable)

        trainable, slots = lax.cond(use, update, lambda: (trainable, state["optimizer"]))
        return {
            "trainable": trainable,
            "optimizer": slots,
            "scale": self._next_scale(state["scale"], finite, keep_going),
            "keep_going": keep_going,
        }, jnp.stack([jnp.asarray(value, jnp.float32) for value in record.values()])

    def _next_scale(self, values, finite, keep_going):
        if not self.loss_scale:
            return values
        variables = self.loss_scale.variables
        with keras.StatelessScope(list(zip(variables, values, strict=True))) as scope:
            self.loss_scale.update(finite)
        return [
            jnp.where(keep_going, scope.get_current_value(variable), value)
            for variable, value in zip(variables, values, strict=True)
        ]

    def _sum_micro_batches(self, trainable, others, batch, scales, seed):
        gathered = self._gather(trainable, others, batch, seed) if self._gathers else {}

        def micro_batch(i, rows):
            own = {**rows, **gathered}
            if gathered:
                own["gathered_start"] = i * rows["sample_weight"].shape[0]
            return self._micro_batch(trainable, others, own, scales, jax.random.fold_in(seed, i))

        first = {name: x[0] for name, x in batch.items()}
        if self.accumulate == 1:
            return micro_batch(0, first)
        sums = jax.eval_shape(micro_batch, 0, first)
        sums = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), sums)

        def add(sums, numbered):
            return jax.tree.map(jnp.add, sums, micro_batch(*numbered)), None

        return lax.scan(add, sums, (jnp.arange(self.accumulate), batch))[0]

    def _gather(self, trainable, others, batch, seed):
        """Returns the outputs of all micro-batches that the loss requires.

        The loss has the same value and gradient as without micro-batches, for twice the time of
        the forward pass.

        Reference:
            Gao et al., Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup,
            2021.
        """

        def outputs(numbered):
            i, rows = numbered
            found = self._call(trainable, others, rows, jax.random.fold_in(seed, i))
            return {name: found[name] for name in self._gathers}

        found = lax.map(outputs, (jnp.arange(self.accumulate), batch))
        found |= {name: batch[name] for name in self.model.gathered_inputs if name in batch}
        return {f"gathered_{name}": x.reshape(-1, *x.shape[2:]) for name, x in found.items()}

    def _micro_batch(self, trainable, others, batch, scales, seed):
        def loss(trainable):
            outputs = self._call(trainable, others, batch, seed)
            errors = self.model.loss_errors(outputs, batch)
            total = sum(errors[name] * scales[name] for name in sorted(scales))
            return total, (errors, self.model.metric_sums(outputs, batch))

        gradients, (errors, metrics) = jax.grad(loss, has_aux=True)(trainable)
        return gradients, errors, metrics

    def _call(self, trainable, others, batch, seed):
        fold = functools.partial(jax.random.fold_in, seed)
        return training_outputs(self.model, self._others, trainable, others, batch, fold)
