"""AdamW and LAMB equal the formulas of the papers in NumPy; exclusions from weight decay."""

import re

import keras
import numpy as np
import pytest

from keras_attn.errors import UserError
from keras_attn.models import BertClassifier, BertEncoder, BertPretrainer
from keras_attn.training.optimizers import LAMB, AdamW, make_optimizer
from tests.support.layer_checks import JIT
from tests.support.quick import quick

B1, B2, EPSILON, DECAY = 0.9, 0.999, 1e-6, 0.1


class _Weights(keras.Model):
    def build(self, input_shape=None):
        start = keras.initializers.RandomNormal(stddev=0.5, seed=3)
        self.kernel = self.add_weight(name="kernel", shape=(4, 3), initializer=start)
        self.bias = self.add_weight(name="bias", shape=(3,), initializer=start)
        self.zeros = self.add_weight(name="zeros", shape=(2, 2), initializer="zeros")
        self.built = True


def _trained(name, gradients, rates):
    model = _Weights()
    model.build()
    first = [v.numpy() for v in model.trainable_variables]
    optimizer = make_optimizer(name, model, weight_decay=DECAY)
    for step, rate in zip(gradients, rates, strict=True):
        optimizer.learning_rate.assign(rate)
        _apply(optimizer, [keras.ops.array(g) for g in step], model.trainable_variables)
    return first, [v.numpy() for v in model.trainable_variables]


def _apply(optimizer, gradients, variables):
    if keras.backend.backend() != "jax":
        optimizer.apply(gradients, variables)
        return
    state = [[v.value for v in group] for group in (optimizer.variables, variables)]
    weights, slots = optimizer.stateless_apply(state[0], gradients, state[1])
    for variable, value in zip([*variables, *optimizer.variables], [*weights, *slots], strict=True):
        variable.assign(value)


def _gradients(steps=4):
    random = np.random.default_rng(0)
    shapes = ((4, 3), (3,), (2, 2))
    return [[random.normal(size=s).astype(np.float32) for s in shapes] for _ in range(steps)]


def _moments(m, v, gradient):
    return B1 * m + (1 - B1) * gradient, B2 * v + (1 - B2) * gradient**2


def _lamb(weights, gradients, rates, decayed):
    weights, m, v = weights.astype(np.float64), 0.0, 0.0
    for count, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), 1):
        m, v = _moments(m, v, gradient)
        r, ratio = m / (1 - B1**count) / (np.sqrt(v / (1 - B2**count)) + EPSILON), 1.0
        if decayed:
            r = r + DECAY * weights
            norm, step = np.linalg.norm(weights), np.linalg.norm(r)
            ratio = norm / step if norm > 0 and step > 0 else 1.0
        weights = weights - rate * ratio * r
    return weights


def _adamw(weights, gradients, rates, decayed):
    """Algorithm 1 of Kingma & Ba with the weight decay of Loshchilov & Hutter."""
    weights, m, v = weights.astype(np.float64), 0.0, 0.0
    for count, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), 1):
        m, v = _moments(m, v, gradient)
        step = m / (1 - B1**count) / (np.sqrt(v / (1 - B2**count)) + EPSILON)
        weights = weights - rate * (step + (DECAY * weights if decayed else 0.0))
    return weights


@pytest.mark.parametrize(("name", "formula"), [("lamb", _lamb), ("adamw", _adamw)])
def test_four_steps_equal_the_formula_of_the_paper(name, formula):
    gradients, rates = _gradients(), [0.1, 0.05, 0.2, 0.01]
    first, last = _trained(name, gradients, rates)
    for k, decayed in enumerate([True, False, True]):
        wanted = formula(first[k], [step[k] for step in gradients], rates, decayed)
        np.testing.assert_allclose(last[k], wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["lamb", "adamw"])
def test_the_first_step_normalizes_gradients_above_epsilon(name):
    gradients = [[np.full(shape, 1e-4, np.float32) for shape in ((4, 3), (3,), (2, 2))]]
    first, last = _trained(name, gradients, [0.1])
    np.testing.assert_allclose(first[1] - last[1], 0.1 * 1e-4 / (1e-4 + EPSILON), rtol=1e-4)


@pytest.mark.parametrize("kind", quick([AdamW, LAMB], AdamW))
def test_optimizers_work_in_fit_with_embeddings_and_are_rebuilt_from_their_config(kind):
    optimizer = kind.from_config(kind(0.1, decay=0.3).get_config())
    assert optimizer.decay == 0.3
    model = keras.Sequential([keras.layers.Embedding(5, 3), keras.layers.Dense(1)])
    model.compile(optimizer, "mse", jit_compile=JIT)
    x, y = np.array([[1, 1], [2, 3]]), np.ones((2, 2, 1))
    losses = model.fit(x, y, epochs=20, verbose=0).history["loss"]
    assert losses[-1] < 0.2 * losses[0]
    with pytest.raises(
        ValueError, match="weight_decay is not supported. Use decay.*weight_decay=0.1"
    ):
        kind(0.1, weight_decay=0.1)


@pytest.mark.parametrize("name", quick(["adamw", "lamb"], "lamb"))
def test_all_weights_of_bert_but_biases_and_norms_are_decayed(name):
    backbone = BertEncoder(20, num_layers=1, hidden_dim=8, num_heads=2, max_length=8)
    model = BertPretrainer(backbone)
    model.build()
    for variable in model.trainable_variables:
        variable.assign(np.full(variable.shape, 2.0))
    optimizer = make_optimizer(name, model, weight_decay=DECAY)
    optimizer.learning_rate.assign(0.5)
    optimizer.apply(
        [keras.ops.zeros(v.shape) for v in model.trainable_variables], model.trainable_variables
    )
    changed = {v.path for v in model.trainable_variables if not np.all(v.numpy() == 2.0)}
    plain = ("bias", "gamma", "beta", "scale")
    wanted = {v.path for v in model.trainable_variables if not v.path.endswith(plain)}
    assert changed == wanted
    assert any("token_embedding" in path for path in changed)
    assert any("kernel" in path for path in changed)


@pytest.mark.parametrize("norm_first", quick([False, True], True))
def test_each_layer_has_its_factor_of_the_learning_rate(norm_first):
    backbone = BertEncoder(
        20, num_layers=3, hidden_dim=8, num_heads=2, max_length=8, norm_first=norm_first
    )
    model = BertClassifier(backbone, 2)
    model.build()
    optimizer = make_optimizer("adamw", model, weight_decay=0.0, layer_decay=0.5)
    optimizer.learning_rate.assign(0.1)
    before = {v.path: v.numpy() for v in model.trainable_variables}
    optimizer.apply(
        [keras.ops.ones(v.shape) for v in model.trainable_variables], model.trainable_variables
    )
    for v in model.trainable_variables:
        layer = re.search(r"/layer_(\d)/", v.path)
        embedding = re.search(r"_embedding|bert_encoder/norm/", v.path)
        height = 3 - int(layer[1]) if layer else 4 if embedding else 0
        # The first step of Adam equals the learning rate for any gradient.
        np.testing.assert_allclose(before[v.path] - v.numpy(), 0.1 * 0.5**height, rtol=1e-4)


def test_lamb_is_rebuilt_from_its_config():
    config = LAMB(0.1, beta_1=0.8, decay=0.02).get_config()
    again = LAMB.from_config(config)
    assert (again.beta_1, again.decay) == (0.8, 0.02)


def test_an_unknown_optimizer_is_an_error_that_lists_the_known_ones():
    with pytest.raises(UserError, match="adamw, lamb, muon. Received: sgd"):
        make_optimizer("sgd", _Weights())
