"""Steps of the engine of the active backend, for tests that hold for every engine."""

import keras

from keras_attn.data.batches import StreamBatches
from keras_attn.training.engines import make_engine
from tests.support.regression import ROWS, SGD


def engine_of(replicas=1):
    """Returns an engine with 1 or 2 replicas."""
    if keras.config.backend() == "jax":
        return make_engine("jax", devices=replicas)
    return make_engine(strategy="one_device" if replicas == 1 else "mirrored")


def step_of(model_class, source, replicas=1, **options):
    """Returns `(step, feed)` of a new model, trained by SGD on batches of `ROWS` rows."""
    engine = engine_of(replicas)
    with engine.scope():
        model = model_class()
        model.build()
        optimizer = SGD(0.5, name="sgd")
        optimizer.build(model.trainable_variables)
    step = engine.make_step(model, optimizer, **options)
    return step, step.feed(StreamBatches(source, ROWS), 0)
