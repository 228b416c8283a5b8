"""An engine needs no more than its contract: the trainer runs on one of NumPy."""

import keras
import numpy as np
import pytest

from keras_attn.data.batches import StreamBatches
from keras_attn.errors import UserError
from keras_attn.training.engines import ENGINES, make_engine
from keras_attn.training.trainer import Stopped, Trainer
from tests.support.fake_step import checkpoints_of, records_of
from tests.support.numpy_engine import NumPyEngine
from tests.support.regression import ROWS, SGD, Examples, Regression


def _train(engine, folder, steps, stop_at=None):
    with engine.scope():
        model = Regression(name="regression")
        model.build()
        if isinstance(engine, NumPyEngine):
            optimizer = engine.make_optimizer("sgd", model)
        else:
            optimizer = SGD(0.5)
            optimizer.build(model.trainable_variables)
    step = engine.make_step(model, optimizer, clip_norm=1.0)
    evaluator = engine.make_evaluator(model)
    validation = StreamBatches(Examples(), ROWS, once=True, limit=12 * ROWS)

    def evaluate(stop):
        if trainer.step == stop_at:
            raise Stopped(trainer.step, 15)
        found = evaluator.run(validation, stop)
        return found and found[0]

    trainer = Trainer(step, StreamBatches(Examples(), ROWS), str(folder), total_steps=steps,
                      peak=0.1, evaluate=evaluate, evaluate_every=4, checkpoint_every=2)
    trainer.run()
    return trainer


def test_numpy_trains_as_tensorflow_does(tmp_path):
    found = [_train(engine, tmp_path / name, 12) for name, engine in (
        ("numpy", NumPyEngine()), ("tensorflow", make_engine(strategy="mirrored")))]
    numpy, tensorflow = (records_of(tmp_path / name) for name in ("numpy", "tensorflow"))
    names = ("step", "loss", "gradient_norm", "accuracy", "learning_rate", "validation_loss",
             "validation_accuracy")
    for name in names:
        np.testing.assert_allclose([record.get(name, 0) for record in numpy],
                                   [record.get(name, 0) for record in tensorflow], 1e-5)
    slopes = [keras.ops.convert_to_numpy(trainer.step_function.model.slope) for trainer in found]
    np.testing.assert_allclose(*slopes, 1e-5)


def test_a_resumed_run_of_any_engine_ends_with_the_same_weights(tmp_path):
    whole = _train(NumPyEngine(), tmp_path / "whole", 12).digest()
    with pytest.raises(Stopped):
        _train(NumPyEngine(), tmp_path / "halves", 12, stop_at=8)
    assert checkpoints_of(tmp_path / "halves")[-1] < 8
    assert _train(NumPyEngine(), tmp_path / "halves", 12).digest() == whole


def test_an_engine_is_registered_by_one_line(monkeypatch):
    with pytest.raises(UserError, match="engine must be one of tensorflow.*Did you mean tensorf"):
        make_engine("tensorflw")
    monkeypatch.setitem(ENGINES, "numpy", "tests.support.numpy_engine")
    assert make_engine("numpy").describe() == "1 x NumPy"
