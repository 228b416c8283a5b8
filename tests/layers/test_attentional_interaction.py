import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers.attentional_interaction import AttentionalInteraction
from tests.support.layer_checks import (
    check_compiled,
    check_config,
    check_gradients,
    check_half_precision,
    layer_gradients,
    randomize,
    run,
    weights_of,
)

MASK = np.array([[1, 1, 1, 1], [1, 0, 1, 1]])


def make(**kwargs):
    return AttentionalInteraction(3, **{"seed": 1, **kwargs})


def features(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape or (2, 4, 5)).astype("float32")


def reference(weights, inputs, mask=None, scores=False):
    """Xiao et al., eq. 3-5, pair by pair."""
    outputs, everyones = [], []
    for row, x in enumerate(inputs):
        pairs = list(itertools.combinations(range(len(x)), 2))
        e, products = np.zeros(len(pairs)), [x[i] * x[j] for i, j in pairs]
        for p, (i, j) in enumerate(pairs):
            if mask is None or (mask[row, i] and mask[row, j]):
                hidden = np.maximum(products[p] @ weights["kernel"] + weights["bias"], 0)
                e[p] = np.exp((hidden @ weights["vector"])[0])
        a = e / max(e.sum(), 1e-300)
        everyones.append(a)
        outputs.append(sum(a[p] * products[p] for p in range(len(pairs))))
    return np.array(everyones if scores else outputs)


@pytest.mark.parametrize("mask", [None, MASK])
def test_every_check_of_the_weighted_pairs(mask, tmp_path):
    inputs = {"inputs": features(), **({} if mask is None else {"mask": mask})}
    layer = make()
    randomize(layer, inputs)
    expected = reference(weights_of(layer), **inputs)
    np.testing.assert_allclose(run(layer, inputs), expected, 1e-5, 1e-5)
    scores = run(layer, inputs, {"return_attention_scores": True}, index=1)
    np.testing.assert_allclose(
        scores, reference(weights_of(layer), **inputs, scores=True), 1e-5, 1e-6
    )
    np.testing.assert_allclose(scores.sum(axis=1), 1, 1e-5)  # over pairs, not each by itself
    check_gradients(layer, inputs, reference)
    check_config(layer, make)
    check_half_precision(layer, make, inputs, {}, expected, 0.05)
    check_compiled(layer, inputs, {}, expected, 1e-5)


def test_a_model_takes_any_batch_and_reloads(tmp_path):
    ids = keras.Input((4,), dtype="int32")
    outputs = make()(
        keras.layers.Embedding(9, 5, mask_zero=True)(ids), return_attention_scores=True
    )
    assert [x.shape for x in outputs] == [(None, 5), (None, 6)]
    model = keras.Model(ids, outputs)
    array = np.array([[1, 2, 3, 0], [4, 5, 0, 0], [6, 0, 0, 0]])
    found = [ops.convert_to_numpy(x) for x in model(array)]
    assert ((found[1] > 0).sum(axis=1) == [3, 1, 0]).all() and not found[0][2].any()
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(ops.convert_to_numpy(again(array)[0]), found[0], 1e-6)


def test_without_a_preference_it_is_the_mean_over_pairs():
    layer, x = make(), features()
    run(layer, {"inputs": x})
    layer.vector.assign(ops.zeros((3, 1)))
    pairs = 0.5 * (x.sum(axis=1) ** 2 - (x**2).sum(axis=1))  # those of a factorization machine
    np.testing.assert_allclose(run(layer, {"inputs": x}), pairs / 6, 1e-4, 1e-5)


def test_the_content_of_an_absent_feature_changes_nothing():
    layer, x = make(), features()
    expected = run(layer, {"inputs": x, "mask": MASK})
    other = np.where(MASK[..., None] > 0, x, np.inf).astype("float32")
    np.testing.assert_allclose(run(layer, {"inputs": other, "mask": MASK}), expected, 1e-6)


def test_a_row_without_a_pair_gives_zero_and_finite_gradients():
    layer, inputs = make(), {"inputs": features(), "mask": np.array([[1, 0, 0, 0], [0, 0, 0, 0]])}
    assert not run(layer, inputs).any()
    by_path, by_input = layer_gradients(layer, inputs)
    assert all(np.isfinite(g).all() for g in (*by_path.values(), *by_input.values()))


def test_dropout_and_the_penalty_are_those_of_training():
    layer = make(dropout=0.5, kernel_regularizer=keras.regularizers.L2(0.1))
    x = features()
    still = run(layer, {"inputs": x})
    assert not np.allclose(run(layer, {"inputs": x}, {"training": True}), still)
    np.testing.assert_allclose(
        float(layer.losses[0]), 0.1 * (weights_of(layer)["kernel"] ** 2).sum(), 1e-5
    )


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: AttentionalInteraction(0), "attention_units=0"),
        (lambda: AttentionalInteraction(dropout=1.0), "dropout=1.0"),
        (lambda: AttentionalInteraction()(features(1, 1, 2)), "input_shape"),
        (lambda: AttentionalInteraction()(keras.Input((None, 2))), "input_shape"),
        (lambda: AttentionalInteraction()(features(1, 2, 2), mask=np.ones((1, 2))), "float"),
    ],
)
def test_wrong_arguments_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("count", [2, 4])
def test_another_number_of_features_is_an_error(count):
    layer = AttentionalInteraction(2, seed=1)
    layer(features(1, 3, 2))
    with pytest.raises(ValueError, match="incompatible"):
        layer(features(1, count, 2))
