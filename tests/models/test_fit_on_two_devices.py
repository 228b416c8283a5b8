"""`fit` under a mirrored strategy computes what it computes on one device."""

import contextlib

import keras
import numpy as np
import pytest

from tests.support.every_model import TASKS, inputs_of, make

if keras.backend.backend() != "tensorflow":
    pytest.skip("tf.distribute strategies need TensorFlow", allow_module_level=True)

from keras_attn.training.engines.tensorflow.strategies import make_strategy

QUICK = ("BertPretrainer",)  # with the weights of its masked tokens


def _fit(name, strategy):
    scope = contextlib.nullcontext() if strategy is None else strategy.scope()
    with scope:
        model, data = make(name)
        model.compile(keras.optimizers.SGD(0.02), jit_compile=False)
    # 11 rows: the last batch has 3, of which one device gets 2.
    history = model.fit(
        x=data, validation_data=data, batch_size=4, epochs=2, shuffle=False, verbose=0
    ).history
    return model, history


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.runs) for name in TASKS]
)
def test_two_devices_train_as_one(name):
    (one, one_history), (two, two_history) = (
        _fit(name, strategy) for strategy in (None, make_strategy("mirrored"))
    )
    assert one_history.keys() == two_history.keys() >= {"loss", "val_loss"}
    for key, values in one_history.items():
        np.testing.assert_allclose(two_history[key], values, 1e-4, 1e-6, err_msg=key)
    for a, b in zip(one.trainable_variables, two.trainable_variables, strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), 1e-4, 1e-5, err_msg=a.path)


def test_a_device_without_rows_changes_nothing():
    losses = []
    for strategy in (None, make_strategy("mirrored")):
        with contextlib.nullcontext() if strategy is None else strategy.scope():
            model, _ = make("BertClassifier")
            model.compile(keras.optimizers.SGD(0.1), jit_compile=False)
        batch = {key: x[:5] for key, x in inputs_of("BertClassifier").items()}
        losses.append(
            model.fit(x=batch, batch_size=4, epochs=2, shuffle=False, verbose=0).history["loss"]
        )
    np.testing.assert_allclose(losses[1], losses[0], 1e-5)


@pytest.mark.thorough
def test_penalties_of_weights_count_once():
    losses, weights = [], []
    for strategy in (None, make_strategy("mirrored")):
        with contextlib.nullcontext() if strategy is None else strategy.scope():
            model, data = make("AttentionalFactorizationMachine")
            model = type(model).from_config({**model.get_config(), "attention_l2": 0.5})
            model.compile(keras.optimizers.SGD(0.1), jit_compile=False)
        losses.append(model.fit(x=data, batch_size=4, shuffle=False, verbose=0).history["loss"])
        weights.append(model.interaction.kernel.numpy())
    np.testing.assert_allclose(losses[1], losses[0], 1e-5)
    np.testing.assert_allclose(weights[1], weights[0], 1e-5)
