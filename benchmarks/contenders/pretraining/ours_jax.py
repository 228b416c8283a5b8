"""A training step of keras-attn's model on JAX, with Keras's optimizer."""

import functools

import jax
import keras

from benchmarks.contenders.pretraining.batch import synthetic_batch
from benchmarks.contenders.pretraining.our_model import make_model
from benchmarks.interleaved import serve


def prepare(options):
    model = make_model(options)
    optimizer = keras.optimizers.AdamW(1e-4, weight_decay=0.01, epsilon=1e-6, global_clipnorm=1.0)
    optimizer.exclude_from_weight_decay([v for v in model.trainable_variables if len(v.shape) < 2])
    optimizer.build(model.trainable_variables)
    batch = {
        name: jax.numpy.asarray(value)
        for name, value in synthetic_batch(
            options["rows"], options["length"], options["masked"]
        ).items()
    }

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state):
        def loss_of(trainable, others):
            outputs, others = model.stateless_call(trainable, others, batch, training=True)
            errors, weights = model.loss_errors(outputs, batch), model.loss_weights(batch)
            return sum(errors[name] / weights[name] for name in errors), others

        trainable, others, slots = state
        (loss, others), gradients = jax.value_and_grad(loss_of, has_aux=True)(trainable, others)
        trainable, slots = optimizer.stateless_apply(slots, gradients, trainable)
        return (trainable, others, slots), loss

    state = tuple(
        [v.value for v in variables]
        for variables in (
            model.trainable_variables,
            model.non_trainable_variables,
            optimizer.variables,
        )
    )

    def work(count):
        nonlocal state
        for _ in range(count):
            state, loss = step(state)
        return {"loss": float(loss)}

    return work


if __name__ == "__main__":
    serve(prepare)
