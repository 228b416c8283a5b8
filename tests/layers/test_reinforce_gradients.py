"""The gradient of a recurrent decoder that samples keys is that of the expected loss."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import AttentionCell, HardAttention, LuongAttention, RecurrentDecoder
from tests.support.layer_checks import gradients, randomize
from tests.support.numpy_attention import normal, softmax
from tests.support.quick import quick

V, E, U, S, T = 4, 2, 2, 2, 3
IDS, LABELS = np.array([[1, 3, 2]], "int32"), np.array([[3, 2, 1]])
MEMORY = normal(1, S, U, seed=2)
ENTROPY_WEIGHT = 0.1


class Forced(HardAttention):
    """Selects, at each step, the key of a table `(rows, T)`; S selects the average instead."""

    table = None

    def _weights(self, logits, soft, mask, training):
        if training:
            self.step = self._step(ops.shape(logits)[1])
        return super()._weights(logits, soft, mask, training)

    def _step(self, length):
        """The choices at the steps of this call, `(rows, T)`: a loop advances the seed by steps."""
        if length > 1:
            return self.table
        counter = ops.cast(self.seed_generator.state.value, "int32")[1] - self.first
        return ops.take(self.table, counter // 16 % T, axis=1)[:, None]

    def _uniform(self, shape):
        if shape[-1] == 1:
            return ops.where(self.step[..., None] == S, 1.0, 0.0)
        chosen = ops.equal(self.step[..., None], ops.arange(shape[-1], dtype="int32"))
        return ops.where(chosen, 1.0, 0.0)  # clipped


def numpy_decoder(weights, choices, order, feeding):
    """Costs, probabilities of the choices and entropies of the steps of a row, in float64."""
    kernel, recurrent, bias = (weights[name] for name in ("kernel", "recurrent_kernel", "bias"))
    memory, state, fed = weights["memory"], np.zeros(U), np.zeros(U)
    costs, chances, entropies = [], [], []
    for t, choice in enumerate(choices):
        x = weights["embedding"][IDS[0, t]]
        if order == "attend_last":
            x = np.concatenate([x, fed]) if feeding else x
            state = np.tanh(x @ kernel + state @ recurrent + bias)
        p = softmax(memory @ state)
        selected = p @ memory if choice == S else memory[choice]
        joined = np.tanh(np.concatenate([selected, state]) @ weights["join"])
        if order == "attend_first":
            state = np.tanh(np.concatenate([x, joined]) @ kernel + state @ recurrent + bias)
            output = state
        else:
            output = fed = joined
        logits = output @ weights["output_kernel"]
        costs.append(np.log(np.exp(logits).sum()) - logits[LABELS[0, t]])
        chances.append(1.0 if choice == S else p[choice])
        entropies.append(-(p * np.log(p)).sum())
    return np.array(costs), np.array(chances), np.array(entropies)


def outcomes(share):
    """All choices of all steps, and the part of their probability that has no gradient."""
    table = np.array([*itertools.product(range(S + (share < 1)), repeat=T)])
    return table, np.where(table == S, 1 - share, share).prod(axis=1)


def expected_loss(weights, share, order, feeding, token_weights):
    """The expectation over all choices of the weighted costs, minus the entropy term."""
    total = 0.0
    for choices, constant in zip(*outcomes(share), strict=True):
        costs, chances, entropies = numpy_decoder(weights, choices, order, feeding)
        errors = token_weights * (costs - ENTROPY_WEIGHT * entropies)
        total += constant * chances.prod() * errors.sum()
    return total


def exact_gradient(name, weights, *arguments):
    """Finite differences of `expected_loss`."""
    found = np.zeros(weights[name].shape)
    for index in np.ndindex(found.shape):
        ends = []
        for step in (1e-5, -1e-5):
            moved = {n: x.copy() for n, x in weights.items()}
            moved[name][index] += step
            ends.append(expected_loss(moved, *arguments))
        found[index] = (ends[0] - ends[1]) / 2e-5
    return found


def make_decoder(share, order, feeding, attention=Forced):
    hard = attention(
        "reinforce",
        "dot",
        sample_probability=share,
        entropy_weight=ENTROPY_WEIGHT,
        seed=1,
        name="hard",
    )
    cell = AttentionCell(
        keras.layers.SimpleRNNCell(U, name="rnn"),
        LuongAttention(U, attention=hard, name="join"),
        order=order,
        input_feeding=feeding,
        name="cell",
    )
    decoder = RecurrentDecoder(cell, V, E, seed=1, name="decoder")
    randomize(decoder, {"target_ids": IDS, "memory": MEMORY})
    for variable in decoder.trainable_variables:
        variable.assign(2.5 * variable)
    if attention is Forced:
        hard.first = int(ops.convert_to_numpy(hard.seed_generator.state.value)[1])
    return decoder, hard


def named(decoder, values):
    names = ("join" if "join" in v.path else v.name for v in decoder.trainable_variables)
    return {name: np.asarray(x, "float64") for name, x in zip(names, values, strict=True)}


def loss_of(decoder, ids, labels, memory, weights):
    """Function of weights and the memory: the weighted costs plus `reinforce_errors`, per row."""
    variables, weights = decoder.trainable_variables, ops.convert_to_tensor(weights)
    ids, labels = ops.convert_to_tensor(ids), ops.convert_to_tensor(labels)

    def rows(tensors):
        with keras.StatelessScope(list(zip(variables, tensors, strict=False))):
            logits, _, draws = decoder(ids, tensors[-1], training=True, return_draws=True)
            costs, baselines = (
                -ops.take_along_axis(ops.log_softmax(x), labels[..., None], axis=-1)[..., 0]
                for x in (logits, draws["baseline_logits"])
            )
            errors = decoder.cell.reinforce_errors(costs, baselines, draws, weights)
            return ops.sum(weights * costs + errors, axis=1), draws

    return rows


WAYS = [("attend_last", True), ("attend_last", False), ("attend_first", True)]


@pytest.mark.parametrize(
    "order, feeding, share",
    quick(
        [(*way, share) for way in WAYS for share in (1.0, 0.5)],
        ("attend_last", True, 0.5),
        ("attend_last", False, 1.0),
        ("attend_first", True, 0.5),
    ),
)
def test_the_expected_gradient_over_all_choices_is_the_exact_one(order, feeding, share):
    decoder, hard = make_decoder(share, order, feeding)
    table, constant = outcomes(share)
    rows, token_weights = len(table), np.array([1.0, 0.5, 2.0], "float32")
    hard.table = ops.convert_to_tensor(table.astype("int32"))
    weights = np.broadcast_to(token_weights, (rows, T))
    ids, labels = (np.repeat(x, rows, axis=0).astype("int32") for x in (IDS, LABELS))
    compute = loss_of(decoder, ids, labels, MEMORY, weights)

    def expectation(tensors):
        # Rows differ in their choices alone, and count by the probability of these.
        memory = ops.repeat(tensors[-1], rows, axis=0)
        found, draws = compute([*tensors[:-1], memory])
        chances = ops.exp(ops.sum(draws["log_probability"], axis=1)) * ops.cast(constant, "float32")
        return ops.sum(ops.stop_gradient(chances) * found)

    arrays = [*(ops.convert_to_numpy(v) for v in decoder.trainable_variables), MEMORY]
    exact = {**named(decoder, arrays[:-1]), "memory": MEMORY[0].astype("float64")}
    arguments = share, order, feeding, token_weights
    value = float(ops.convert_to_numpy(expectation([*map(ops.convert_to_tensor, arrays)])))
    assert value == pytest.approx(expected_loss(exact, *arguments), rel=1e-4)
    *found, of_memory = gradients(expectation, arrays)
    found = {**named(decoder, found), "memory": of_memory[0]}
    for name, gradient in found.items():
        wanted = exact_gradient(name, exact, *arguments)
        np.testing.assert_allclose(gradient, wanted, 1e-4, 1e-5, err_msg=name)


def test_the_value_is_that_of_the_costs_and_entropies():
    decoder, hard = make_decoder(1.0, "attend_last", True)
    table, _ = outcomes(1.0)
    hard.table = ops.convert_to_tensor(table.astype("int32"))
    ids, labels = (np.repeat(x, len(table), axis=0).astype("int32") for x in (IDS, LABELS))
    compute = loss_of(decoder, ids, labels, MEMORY, np.ones((len(table), T), "float32"))
    memory = np.repeat(MEMORY, len(table), axis=0)
    arrays = [*(ops.convert_to_numpy(v) for v in decoder.trainable_variables), memory]
    total, draws = compute([*map(ops.convert_to_tensor, arrays)])
    entropies = ops.convert_to_numpy(draws["entropy"]).sum(axis=1)
    exact = {**named(decoder, arrays[:-1]), "memory": MEMORY[0]}
    costs = [numpy_decoder(exact, choices, "attend_last", True)[0] for choices in table]
    wanted = np.sum(costs, axis=1) - ENTROPY_WEIGHT * entropies
    np.testing.assert_allclose(ops.convert_to_numpy(total), wanted, 1e-4, 1e-5)


@pytest.mark.thorough
def test_the_mean_of_many_samples_comes_near_the_exact_gradient():
    # The layer itself, with its own random numbers.
    share, number, batches = 0.7, 500, 12
    decoder, hard = make_decoder(share, "attend_last", True, HardAttention)
    ids, labels = (np.repeat(x, number, axis=0).astype("int32") for x in (IDS, LABELS))
    weights = np.ones((number, T), "float32")
    compute = loss_of(decoder, ids, labels, MEMORY, weights)
    variables = decoder.trainable_variables
    arrays = [ops.convert_to_numpy(v) for v in variables]
    memory = np.repeat(MEMORY, number, axis=0)
    samples = []
    for batch in range(batches):
        hard.seed_generator.state.assign([batch, 0])
        samples.append(
            gradients(lambda tensors: ops.sum(compute(tensors)[0]) / number, [*arrays, memory])
        )
    found = {
        name: np.stack([named(decoder, sample[:-1])[name] for sample in samples])
        for name in named(decoder, arrays)
    }
    exact = {**named(decoder, arrays), "memory": MEMORY[0].astype("float64")}
    for name in ("embedding", "join", "recurrent_kernel"):
        wanted = exact_gradient(name, exact, share, "attend_last", True, np.ones(T))
        error = found[name].std(axis=0, ddof=1) / np.sqrt(batches)
        assert (np.abs(found[name].mean(axis=0) - wanted) < 6 * error + 1e-3).all(), name
        assert np.abs(wanted).max() > 5 * error.max()
