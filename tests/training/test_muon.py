"""Muon equals the formulas of the papers in NumPy; which weights it updates, in every step."""

import re

import keras
import numpy as np
import pytest

from keras_attn.errors import UserError
from keras_attn.models import BertEncoder, BertPretrainer, RecurrentClassifier, RecurrentEncoder
from keras_attn.training.optimizers import Muon, make_optimizer
from keras_attn.training.orthogonal import newton_schulz
from keras_attn.training.variables import assign_values, read_values, variables_by_path
from tests.support.layer_checks import JIT
from tests.support.quick import quick

DECAY, MOMENTUM = 0.1, 0.95


class _Weights(keras.Model):
    """A fused kernel of three projections, a tall one, two square ones, and others."""

    SHAPES = {"fused": (4, 15), "tall": (6, 3), "square": (4, 4), "embedding": (7, 4), "bias": (5,)}
    PROJECTIONS = {"fused": (4, 4, 7), "tall": (3,), "square": (4,)}

    def build(self, input_shape=None):
        start = keras.initializers.RandomNormal(stddev=0.5, seed=3)
        for name, shape in self.SHAPES.items():
            weight = self.add_weight(name=name, shape=shape, initializer=start)
            if name in self.PROJECTIONS:
                weight.projection_dims = self.PROJECTIONS[name]
            setattr(self, name, weight)
        self.built = True


class _Separate(_Weights):
    """The same weights with a kernel for each projection."""

    SHAPES = {"query": (4, 4), "key": (4, 4), "value": (4, 7)}
    PROJECTIONS = {name: (shape[1],) for name, shape in SHAPES.items()}


def _built(kind=_Weights, name="muon", **options):
    model = kind(name="net")
    model.build()
    return model, make_optimizer(name, model, weight_decay=DECAY, **options)


def _apply(optimizer, gradients, model, **options):
    variables = model.trainable_variables
    gradients = [keras.ops.array(gradient) for gradient in gradients]
    if keras.backend.backend() != "jax":
        optimizer.apply(gradients, variables, **options)
        return
    state = [[v.value for v in group] for group in (optimizer.variables, variables)]
    weights, slots = optimizer.stateless_apply(state[0], gradients, state[1])
    for variable, value in zip([*variables, *optimizer.variables], [*weights, *slots], strict=True):
        variable.assign(value)


def _values(model):
    return {v.name: keras.ops.convert_to_numpy(v) for v in model.trainable_variables}


def _gradients(steps, kind=_Weights):
    random = np.random.default_rng(0)
    shapes = kind.SHAPES.values()
    return [[random.normal(size=s).astype(np.float32) for s in shapes] for _ in range(steps)]


def _steps(w, gradients, rates, decay=DECAY):
    """Algorithm 2 of Jordan et al. with the factor and decay of equation 4 of Liu et al."""
    w, momentum = w.astype(np.float64), 0.0
    for gradient, rate in zip(gradients, rates, strict=True):
        momentum = MOMENTUM * momentum + gradient
        x = gradient + MOMENTUM * momentum
        u, s, vt = np.linalg.svd(x / np.linalg.norm(x), full_matrices=False)
        for _ in range(5):
            s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
        w = w - rate * (0.2 * np.sqrt(max(w.shape)) * (u * s) @ vt + decay * w)
    return w


@pytest.mark.parametrize("count", [1, 3])
def test_steps_equal_the_formula_of_the_papers_for_each_projection(count):
    model, optimizer = _built()
    first, gradients, rates = _values(model), _gradients(count), [0.1, 0.05, 0.2][:count]
    for gradient, rate in zip(gradients, rates, strict=True):
        optimizer.learning_rate.assign(rate)
        _apply(optimizer, gradient, model)
    last = _values(model)
    for number, (name, widths) in enumerate(_Weights.PROJECTIONS.items()):
        ends = np.cumsum(widths)[:-1]
        parts = zip(
            np.split(first[name], ends, axis=1),
            *(np.split(gradient[number], ends, axis=1) for gradient in gradients),
            strict=True,
        )
        wanted = [_steps(part, own, rates) for part, *own in parts]
        np.testing.assert_allclose(last[name], np.concatenate(wanted, 1), rtol=1e-4, atol=1e-5)


def test_embeddings_and_biases_have_the_updates_of_adamw():
    ends = []
    for name in ("muon", "adamw"):
        model, optimizer = _built(name=name, beta_2=0.95)
        for gradient in _gradients(3):
            optimizer.learning_rate.assign(0.1)
            _apply(optimizer, gradient, model)
        ends.append(_values(model))
    for name in ("embedding", "bias"):
        np.testing.assert_array_equal(ends[0][name], ends[1][name])
    assert not np.allclose(ends[0]["square"], ends[1]["square"], atol=0.01)


def test_a_fused_kernel_has_the_updates_of_separate_kernels():
    fused, fused_optimizer = _built()
    separate, separate_optimizer = _built(_Separate)
    parts = np.split(_values(fused)["fused"], [4, 8], axis=1)
    for variable, part in zip(separate.trainable_variables, parts, strict=True):
        variable.assign(part)
    for gradient in _gradients(2):
        for optimizer in (fused_optimizer, separate_optimizer):
            optimizer.learning_rate.assign(0.1)
        _apply(fused_optimizer, gradient, fused)
        _apply(separate_optimizer, np.split(gradient[0], [4, 8], axis=1), separate)
    joined = np.concatenate(list(_values(separate).values()), axis=1)
    np.testing.assert_allclose(_values(fused)["fused"], joined, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 0.0), ("bfloat16", 0.05)])
def test_the_singular_values_of_an_update_are_near_1_whatever_the_scale(dtype, tolerance):
    random = np.random.default_rng(0)
    x = random.normal(size=(3, 16, 40)) * np.array([1e-3, 1.0, 1e3])[:, None, None]
    x = keras.ops.array(x.astype(np.float32))
    found = keras.ops.convert_to_numpy(newton_schulz(x, dtype))
    values = np.linalg.svd(found)[1]
    # Of the coefficients: a singular value of 1 becomes 0.7, and the largest found is 1.2.
    assert 0.68 - tolerance < values.min() and values.max() < 1.21 + tolerance


def test_a_gradient_of_zeros_only_decays_the_kernel():
    model, optimizer = _built()
    first = _values(model)["fused"]
    optimizer.learning_rate.assign(0.5)
    _apply(optimizer, [np.zeros(s, np.float32) for s in _Weights.SHAPES.values()], model)
    np.testing.assert_allclose(_values(model)["fused"], first * (1 - 0.5 * DECAY), rtol=1e-6)


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="factors are applied beforehand")
def test_the_factor_of_clipping_and_loss_scaling_applies_to_the_gradient():
    ends = []
    for scale in (1.0, 64.0):
        model, optimizer = _built()
        for step, gradient in enumerate(_gradients(2)):
            own = scale if step else 1.0  # only the sum of two gradients depends on their scale
            _apply(optimizer, [own * x for x in gradient], model, factor=1 / own)
        ends.append(_values(model))
    for name, value in ends[0].items():
        np.testing.assert_allclose(ends[1][name], value, rtol=1e-5, atol=1e-6)


def test_the_kernels_of_attention_and_feed_forward_layers_of_bert_are_orthogonalized():
    model = BertPretrainer(BertEncoder(20, 1, 8, 2, max_length=8, feed_forward="geglu"))
    model.build()
    optimizer = make_optimizer("muon", model)
    slots = [v.path for v in optimizer.variables if v.path.endswith("_velocity")]
    own = [v.path for v in model.trainable_variables]
    velocities = [path for path in own if any(path.replace("/", "_") in slot for slot in slots)]
    hidden = sorted(set(own) - set(velocities))
    prefix = "bert_pretrainer/bert_encoder/layer_0/"
    assert hidden == [
        f"{prefix}attention/output_kernel",
        f"{prefix}attention/query_key_value_kernel",
        f"{prefix}feed_forward/intermediate/kernel",
        f"{prefix}feed_forward/output/kernel",
    ]
    dims = {v.path.removeprefix(prefix): v.projection_dims for v in model.trainable_variables
            if v.path in hidden}  # fmt: skip
    assert dims["attention/query_key_value_kernel"] == (8, 8, 8)
    assert dims["feed_forward/intermediate/kernel"] == (32, 32)


@pytest.mark.parametrize("policy", quick(["float32", "mixed_bfloat16", "mixed_float16"], "float32"))
def test_products_have_the_precision_of_the_model_where_its_range_is_that_of_float32(policy):
    backbone = BertEncoder(20, 1, 8, 2, max_length=8, dtype=policy)
    model = BertPretrainer(backbone, dtype=policy)
    model.build()
    optimizer = make_optimizer("muon", model)
    assert optimizer.product_dtype == ("bfloat16" if policy == "mixed_bfloat16" else "float32")
    before = {v.path: keras.ops.convert_to_numpy(v) for v in model.trainable_variables}
    optimizer.learning_rate.assign(0.1)
    _apply(optimizer, [np.ones(v.shape, np.float32) for v in model.trainable_variables], model)
    for v in model.trainable_variables:
        if hasattr(v, "projection_dims"):
            change = before[v.path] - keras.ops.convert_to_numpy(v)
            assert v.dtype == "float32" and 0 < np.abs(change).max() < 0.1


def test_slots_restored_in_another_optimizer_continue_bitwise():
    gradients = _gradients(4)
    model, optimizer = _built()
    for gradient in gradients[:2]:
        _apply(optimizer, gradient, model)
    saved = read_values(variables_by_path(model, optimizer))
    other, second = _built()
    assign_values(variables_by_path(other, second), saved, "It")
    for gradient in gradients[2:]:
        _apply(optimizer, gradient, model)
        _apply(second, gradient, other)
    for name, value in _values(model).items():
        np.testing.assert_array_equal(_values(other)[name], value)


def test_muon_works_in_fit_and_is_rebuilt_from_its_config():
    optimizer = Muon.from_config(Muon(0.02, decay=0.0, momentum=0.9).get_config())
    assert (optimizer.momentum, optimizer.product_dtype) == (0.9, "float32")
    layers = [keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)]
    model = keras.Sequential([keras.layers.Input((8,)), *layers])
    optimizer.orthogonalize({layers[0].kernel.path: (8,)})
    model.compile(optimizer, "mse", jit_compile=JIT)
    x = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
    losses = model.fit(x, x[:, :1], epochs=30, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]


def test_a_model_without_attention_and_feed_forward_layers_is_an_error():
    model = RecurrentClassifier(RecurrentEncoder(12, 1, 8, seed=0), 3)
    model.build()
    with pytest.raises(UserError, match=re.escape("RecurrentClassifier lacks. Use train.optim")):
        make_optimizer("muon", model)
