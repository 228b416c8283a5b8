"""Likelihoods, tags and marginals of `CRF` against the enumeration of all sequences of tags, and
against pytorch-crf.
"""

import itertools
import pathlib

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import CRF
from keras_attn.ops import crf_loss
from tests.support.layer_checks import (
    check_compiled,
    check_config,
    check_gradients,
    check_symbolic_and_file,
    compiled,
    gradients,
    in_a_graph,
    run,
    weights_of,
)
from tests.support.numpy_attention import normal
from tests.support.quick import quick
from tests.support.small_crf import CONSTRAINTS, TAGS, make_layer

MASKS = {
    "all": np.ones((3, 4), int),
    "padded": np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]]),
    "holes": np.array([[0, 1, 0, 1], [1, 1, 0, 1], [0, 0, 0, 0]]),
}
ALL = pytest.mark.parametrize(
    "mask, constraints",
    quick(list(itertools.product(MASKS, CONSTRAINTS)), ("holes", "constrained")),
)


def allowed_sequences(weights, emissions, constraints):
    """All sequences `(N, T)` for emissions `(T, K)` that are allowed, and their scores `(N,)`."""
    length, number = emissions.shape
    into, first, last = (
        np.array(constraints.get(name, np.ones(shape, bool)))
        for name, shape in (
            ("allowed_transitions", (number, number)),
            ("allowed_start", number),
            ("allowed_end", number),
        )
    )
    found, scores = [], []
    for tags in itertools.product(range(number), repeat=length):
        pairs = list(itertools.pairwise(tags))
        if first[tags[0]] and last[tags[-1]] and all(into[pair] for pair in pairs):
            score = weights["start"][tags[0]] + weights["end"][tags[-1]]
            score += sum(emissions[t, tag] for t, tag in enumerate(tags))
            found.append(tags)
            scores.append(score + sum(weights["transitions"][pair] for pair in pairs))
    return np.array(found), np.array(scores)


def rows_of(weights, inputs, mask, constraints):
    """Positions, sequences, probabilities and scores of each row that has a position."""
    for row, real in enumerate(np.asarray(mask) > 0):
        if real.any():
            found, scores = allowed_sequences(weights, inputs[row, real], constraints)
            weight = np.exp(scores - scores.max())
            yield row, np.flatnonzero(real), found, weight / weight.sum(), scores


def outputs(weights, inputs, mask, constraints):
    """The output of the layer: one-hot Viterbi tags and conditional log probabilities."""
    number = inputs.shape[-1]
    decoded, log_probs = np.zeros(inputs.shape), np.zeros((*inputs.shape, number))
    for row, places, found, p, _ in rows_of(weights, inputs, mask, constraints):
        for t, place in enumerate(places):
            decoded[row, place, found[p.argmax(), t]] = 1
            for i, j in itertools.product(range(number), repeat=2):
                before = True if t == 0 else found[:, t - 1] == i
                both = p[before & (found[:, t] == j)].sum()
                if both:
                    log_probs[row, place, i, j] = np.log(both / p[before & (p > 0)].sum())
    return np.concatenate([decoded, log_probs.reshape(*inputs.shape[:2], -1)], axis=-1)


@pytest.mark.parametrize("mask", quick(MASKS, "padded"))
def test_outputs_are_tags_and_conditional_probabilities(mask):
    inputs = {"inputs": normal(3, 4, TAGS), "mask": MASKS[mask]}

    def reference(weights, inputs, mask):
        return outputs(weights, inputs, mask, {})

    layer = make_layer()
    expected = reference(weights_of(layer), **inputs)
    np.testing.assert_allclose(run(layer, inputs), expected, 1e-5, 1e-5)
    check_gradients(layer, inputs, reference)
    check_config(layer, CRF)
    check_compiled(layer, inputs, {}, expected, 1e-5)
    check_symbolic_and_file(layer, inputs, {}, expected, 1e-5)


@ALL
def test_likelihoods_tags_and_marginals_are_those_of_all_sequences(mask, constraints):
    mask, constraints = MASKS[mask], CONSTRAINTS[constraints]
    emissions, layer = 2 * normal(3, 4, TAGS), make_layer(**constraints)
    tags = np.zeros(mask.shape, "int32")
    likelihood, best, marginals = np.zeros(3), np.zeros(3), np.zeros(emissions.shape)
    decoded = np.zeros(mask.shape, int)
    chosen = np.random.default_rng(2)
    for row, places, found, p, scores in rows_of(
        weights_of(layer), emissions.astype("float64"), mask, constraints
    ):
        number = chosen.integers(len(found))
        tags[row, places], likelihood[row] = found[number], np.log(p[number])
        decoded[row, places], best[row] = found[p.argmax()], scores.max()
        for sequence, probability in zip(found, p, strict=True):
            marginals[row, places, sequence] += probability
    for wrapped in (lambda function: function, in_a_graph, compiled):
        methods = wrapped(
            lambda emissions, tags, mask: (
                layer.log_likelihood(emissions, tags, mask),
                *layer.decode(emissions, mask),
                layer.marginals(emissions, mask),
            )
        )
        results = methods(*(ops.convert_to_tensor(x) for x in (emissions, tags, mask)))
        for result, expected in zip(results, (likelihood, decoded, best, marginals), strict=True):
            np.testing.assert_allclose(ops.convert_to_numpy(result), expected, 1e-5, 1e-5)
    assert keras.backend.standardize_dtype(results[1].dtype) == "int32"
    losses = crf_loss(tags, layer(emissions, mask=mask))
    np.testing.assert_allclose(ops.convert_to_numpy(losses).sum(1), -likelihood, 1e-5, 1e-5)


@ALL
def test_unknown_tags_are_marginalized_out(mask, constraints):
    mask, constraints = MASKS[mask], CONSTRAINTS[constraints]
    emissions, layer = normal(3, 4, TAGS), make_layer(**constraints)
    tags = np.array([[2, -1, 1, 1], [-1, 0, -100, 1], [-1, -1, -1, -1]])
    expected = np.zeros(3)
    for row, places, found, p, _ in rows_of(weights_of(layer), emissions, mask, constraints):
        known = tags[row, places]
        with np.errstate(divide="ignore"):
            expected[row] = np.log(p[((found == known) | (known < 0)).all(axis=1)].sum())
    expected = np.maximum(expected, -1e30)  # not allowed
    found = ops.convert_to_numpy(layer.log_likelihood(emissions, tags, mask))
    np.testing.assert_allclose(found, expected, 1e-5, 1e-5)


def test_likelihoods_gradients_and_tags_are_those_of_pytorch_crf():
    path = pathlib.Path(__file__).parents[1] / "golden/crf.npz"
    golden = np.load(path, allow_pickle=False)
    layer, mask, tags = CRF(), golden["mask"], golden["tags"].astype("int32")
    emissions = golden["emissions"].astype("float32")
    layer.build(emissions.shape)
    for variable in layer.weights:
        variable.assign(golden[variable.name])

    def likelihoods(tensors):
        with keras.StatelessScope(list(zip(layer.weights, tensors[1:], strict=True))):
            return layer.log_likelihood(tensors[0], tags, mask)

    arrays = [emissions, *(golden[v.name].astype("float32") for v in layer.weights)]
    found = ops.convert_to_numpy(likelihoods([ops.convert_to_tensor(x) for x in arrays]))
    np.testing.assert_allclose(found, golden["log_likelihood"], 1e-5)
    slopes = gradients(lambda tensors: ops.sum(likelihoods(tensors)), arrays)
    for name, slope in zip(["emissions", *(v.name for v in layer.weights)], slopes, strict=True):
        np.testing.assert_allclose(slope, golden[f"gradients/{name}"], 1e-4, 1e-5, err_msg=name)
    np.testing.assert_array_equal(layer.decode(emissions, mask)[0], golden["decoded"])
    # The gradient with respect to an emission is that of the score minus the marginal.
    wanted = np.eye(5)[tags] * mask[..., None] - golden["gradients/emissions"]
    found = ops.convert_to_numpy(layer.marginals(emissions, mask))
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-6)


def test_a_long_sequence_is_as_exact_as_a_short_one():
    layer, emissions = make_layer(), 5 * normal(2, 300, TAGS)
    tags = np.random.default_rng(1).integers(0, TAGS, (2, 300))
    weights, rows = weights_of(layer), np.arange(2)[:, None]
    total = weights["start"] + emissions[:, 0].astype("float64")
    for t in range(1, 300):
        scores = total[..., None] + weights["transitions"]
        total = np.logaddexp.reduce(scores, axis=1) + emissions[:, t]
    score = weights["start"][tags[:, 0]] + weights["end"][tags[:, -1]]
    score += emissions[rows, np.arange(300), tags].astype("float64").sum(axis=1)
    score += weights["transitions"][tags[:, :-1], tags[:, 1:]].sum(axis=1)
    expected = score - np.logaddexp.reduce(total + weights["end"], axis=1)
    found = ops.convert_to_numpy(layer.log_likelihood(emissions, tags))
    np.testing.assert_allclose(found, expected, 1e-6)
