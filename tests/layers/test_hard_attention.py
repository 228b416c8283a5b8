import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import AttentionCell, HardAttention, LuongAttention
from tests.support.layer_checks import (
    check_gradients,
    compiled,
    gradients,
    layer_gradients,
    randomize,
    run,
    weights_of,
    with_other_padding,
)
from tests.support.numpy_attention import attention_weights, normal, softmax
from tests.support.quick import each_check

ESTIMATORS = ["straight_through", "gumbel", "reinforce"]
DRAWING = {"gumbel": {}, "reinforce": {"sample_probability": 1.0}}  # for every query
MASK = np.array([[1, 1, 0, 1], [1, 0, 0, 0]])
P = np.array([0.5, 0.25, 0.15, 0.1])


def make(estimator="straight_through", score="general", **kwargs):
    return HardAttention(estimator, score, **{"seed": 1, **kwargs})


def inputs_of():
    return {"query": 2 * normal(2, 3, 5), "value": normal(2, 4, 4, seed=1), "value_mask": MASK}


def most_likely(weights, query, value, value_mask):
    soft = attention_weights("general", weights, query, value, value_mask[:, None] > 0)
    return np.eye(value.shape[1])[soft.argmax(-1)]


def draws_of(layer, p, number, **arguments):
    """Weights `(number, S)` of queries whose softmax is p, in training."""
    query = np.broadcast_to(np.log(p), (number, 1, len(p))).astype("float32")
    key = np.broadcast_to(np.eye(len(p), dtype="float32"), (number, len(p), len(p)))
    return run(layer, {"query": query, "value": key}, {"training": True, **arguments})[:, 0]


@pytest.mark.parametrize("check, estimator", each_check(ESTIMATORS, ESTIMATORS[0]))
def test_every_check_at_inference_where_the_most_likely_key_is_taken(check, estimator):
    def reference(weights, query, value, value_mask):
        return most_likely(weights, query, value, value_mask) @ value

    check(lambda **k: make(estimator, **k), inputs_of(), reference)


def test_straight_through_is_one_hot_and_has_the_gradient_of_the_softmax():
    layer, inputs = make(), inputs_of()
    randomize(layer, inputs)
    exact = {n: x.astype("float64") for n, x in inputs.items()}
    hard = most_likely(weights_of(layer), **exact)
    base = attention_weights(
        "general", weights_of(layer), exact["query"], exact["value"], MASK[:, None] > 0
    )

    def call(tensors):
        return layer(*tensors, value_mask=MASK, return_attention_scores=True, training=True)[1]

    tensors = [ops.convert_to_tensor(inputs[n]) for n in ("query", "value")]
    for function in (call, compiled(call)):
        np.testing.assert_array_equal(ops.convert_to_numpy(function(tensors)), hard)

    def near_here(weights, query, value, value_mask, key):
        soft = attention_weights("general", weights, query, key, value_mask[:, None] > 0)
        return (hard + soft - base) @ value

    check_gradients(layer, {**inputs, "key": inputs["value"]}, near_here, {"training": True})


@pytest.mark.parametrize("estimator", DRAWING)
def test_keys_are_drawn_as_often_as_their_probability(estimator):
    number = 20000
    layer = make(estimator, "dot", **DRAWING[estimator])
    found = draws_of(layer, P, number)
    np.testing.assert_array_equal(np.sort(found, axis=-1), np.eye(4)[[3] * number])
    deviation = np.sqrt(P * (1 - P) / number)
    assert (np.abs(found.mean(0) - P) < 4 * deviation).all()
    # Queries draw by themselves: so often do two neighbours take the same key.
    same = (found[1:] * found[:-1]).sum(-1).mean()
    assert abs(same - (P**2).sum()) < 4 * np.sqrt(0.25 / number)


@pytest.mark.parametrize("estimator", DRAWING)
def test_a_masked_key_is_never_drawn(estimator):
    layer = make(estimator, "dot", **DRAWING[estimator])
    found = draws_of(layer, P, 2000, attention_mask=np.array([[0, 1, 1, 0]]))
    np.testing.assert_array_equal(found[:, [0, 3]], 0.0)
    np.testing.assert_allclose(found.mean(0)[1], 0.625, atol=4 * np.sqrt(0.25 / 2000))


def test_gumbels_temperature_divides_the_gradient_but_not_the_frequencies():
    # At high temperature y is nearly uniform whatever the noise: dy_i/de_j = (1/S - 1/S^2) / tau.
    tau, value, p = 1e3, normal(1, 4, 1, seed=1), P.astype("float32")
    layer = make("gumbel", "dot", temperature=tau)
    inputs = {
        "query": np.log(p)[None, None],
        "value": value,
        "key": np.eye(4, dtype="float32")[None],
    }
    run(layer, inputs)
    _, by_input = layer_gradients(layer, inputs, {"training": True})
    expected = (value - value.mean())[0, :, 0] / 4 / tau
    np.testing.assert_allclose(by_input["query"][0, 0], expected, atol=0.03 * expected.max())
    for temperature in (0.01, 100.0):
        layer = make("gumbel", "dot", temperature=temperature)
        assert np.abs(draws_of(layer, P, 5000).mean(0) - P).max() < 4 * np.sqrt(0.25 / 5000)


def test_reinforce_takes_the_average_where_it_does_not_sample():
    number = 5000
    found = draws_of(make("reinforce", "dot", sample_probability=0.3), P, number)
    sampled = np.sort(found, axis=-1)[:, -1] == 1
    np.testing.assert_allclose(found[~sampled], np.broadcast_to(P, found[~sampled].shape), 1e-4)
    assert abs(sampled.mean() - 0.3) < 4 * np.sqrt(0.3 * 0.7 / number)
    never = draws_of(make("reinforce", "dot", sample_probability=0.0), P, 10)
    np.testing.assert_allclose(never, np.broadcast_to(P, never.shape), 1e-4)


LOGITS = np.array([[0.3, -0.5, 1.0], [-0.2, 0.9, 0.1]])  # (T, S)
VALUE = np.array([[0.5, -1.0], [1.5, 0.3], [-0.7, 0.8]])  # (S, V)
TASTE = np.array([[1.0, -0.5], [0.3, 0.8]])  # (T, V)


def expected_loss(logits, value, share, entropy_weight):
    """Expectation over all draws of two queries: each takes a key, or the average by p."""
    p = softmax(logits)
    outcomes = [
        [(share * p[t, j], np.eye(3)[j]) for j in range(3)] + [(1 - share, p[t])] for t in range(2)
    ]
    likelihood = sum(
        chance[0] * chance[1] * np.sin((TASTE * (np.stack(chosen) @ value)).sum())
        for chance, chosen in (zip(*pair, strict=True) for pair in itertools.product(*outcomes))
    )
    return -likelihood - entropy_weight * -(p * np.log(p)).sum()


@pytest.mark.parametrize("share,baseline", [(1.0, 0.0), (1.0, -0.8), (0.5, 0.3)])
def test_reinforces_gradient_is_that_of_the_expectation_over_all_draws(share, baseline):
    number, entropy_weight = 20000, 0.1
    layer = make("reinforce", "dot", sample_probability=share, entropy_weight=entropy_weight)
    layer.build((None, 2, 3), (None, 3, 2), (None, 3, 3))
    layer.baseline.assign(baseline)
    key = ops.convert_to_tensor(np.broadcast_to(np.eye(3, dtype="float32"), (number, 3, 3)))

    def loss(tensors):
        output, draws = layer(*tensors, key, return_draws=True, training=True)
        likelihood = ops.sin(ops.sum(output * ops.cast(TASTE, "float32"), axis=(1, 2)))
        return layer.reinforce_loss(likelihood, draws, update_baseline=False)

    # A copy for each draw, so that the spread of their gradients gives the tolerance.
    copies = [np.repeat(x[None].astype("float32"), number, axis=0) for x in (LOGITS, VALUE)]
    for place, found in enumerate(gradients(loss, copies)):
        found = found * number
        exact = np.zeros(found.shape[1:])
        for index in np.ndindex(exact.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = [LOGITS.copy(), VALUE.copy()]
                moved[place][index] += step
                ends.append(expected_loss(*moved, share, entropy_weight))
            exact[index] = (ends[0] - ends[1]) / 2e-5
        error = found.std(axis=0) / np.sqrt(number)
        assert np.abs(exact).max() > 20 * error.max()
        assert (np.abs(found.mean(axis=0) - exact) < 4 * error + 1e-5).all()


def test_the_baseline_follows_the_mean_after_the_loss():
    layer = make("reinforce", "dot", baseline_momentum=0.9, sample_probability=1.0)
    x = ops.convert_to_tensor(normal(2, 3, 5))
    _, draws = layer(x, x, return_draws=True, training=True)
    chosen = ops.convert_to_numpy(draws["log_probability"]).sum(-1)
    entropy = ops.convert_to_numpy(draws["entropy"]).sum(-1)
    baseline = 0.0
    for likelihood in ([-1.0, -3.0], [-2.0, -6.0]):
        likelihood = np.array(likelihood, "float32")
        loss = layer.reinforce_loss(ops.convert_to_tensor(likelihood), draws)
        expected = -(likelihood + (likelihood - baseline) * chosen + 0.002 * entropy).mean()
        np.testing.assert_allclose(float(ops.convert_to_numpy(loss)), expected, 1e-5)
        baseline = 0.9 * baseline + 0.1 * likelihood.mean()
        np.testing.assert_allclose(ops.convert_to_numpy(layer.baseline), baseline, 1e-6)
    layer.reinforce_loss(ops.convert_to_tensor(likelihood), draws, update_baseline=False)
    np.testing.assert_allclose(ops.convert_to_numpy(layer.baseline), baseline, 1e-6)


def test_draws_have_their_probability_and_entropy():
    layer = make("reinforce", sample_probability=0.5)
    inputs = {**inputs_of(), "query": 2 * normal(2, 9, 5)}
    inputs["query_mask"] = np.arange(9) < np.array([[8], [9]])
    randomize(layer, inputs)
    named = {n: ops.convert_to_tensor(x) for n, x in inputs.items()}
    _, weights, draws = layer(
        named.pop("query"),
        named.pop("value"),
        **named,
        training=True,
        return_attention_scores=True,
        return_draws=True,
    )
    weights, log_probability, entropy = (
        ops.convert_to_numpy(x) for x in (weights, draws["log_probability"], draws["entropy"])
    )
    p = attention_weights(
        "general",
        weights_of(layer),
        inputs["query"],
        inputs["value"],
        (MASK[:, None] * inputs["query_mask"][..., None]) > 0,
    )
    logs = np.log(np.where(p > 0, p, 1.0))
    np.testing.assert_allclose(entropy, -(p * logs).sum(-1), 1e-4, 1e-6)
    sampled = weights.max(-1) == 1
    assert 0 < sampled[0, :8].sum() < 8
    np.testing.assert_allclose(
        log_probability, np.where(sampled, (weights * logs).sum(-1), 0.0), 1e-4, 1e-6
    )


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_row_with_no_key_gives_zeros_and_finite_gradients(estimator, policy, training):
    layer = make(estimator, dtype=policy)
    inputs = {**inputs_of(), "value_mask": np.array([[0, 0, 0, 0], [1, 1, 0, 0]])}
    randomize(layer, inputs)
    for index in (0, 1):
        found = run(layer, inputs, {"return_attention_scores": True, "training": training}, index)
        np.testing.assert_array_equal(found[0], 0.0)
        assert np.abs(found[1]).max(axis=-1).min() > 0
    by_path, by_input = layer_gradients(layer, inputs, {"training": training})
    for name, gradient in {**by_path, **by_input}.items():
        assert np.isfinite(np.asarray(gradient, "float32")).all(), name

    def loss(tensors):
        output, draws = layer(
            *tensors, value_mask=inputs["value_mask"], return_draws=True, training=training
        )
        found = ops.sum(draws["log_probability"]) + ops.sum(draws["entropy"])
        return found + ops.cast(ops.sum(output), "float32")

    for gradient in gradients(loss, [inputs["query"], inputs["value"]]):
        assert np.isfinite(gradient).all()
        np.testing.assert_array_equal(gradient[0], 0.0)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_padding_never_reaches_the_output(estimator):
    layer, inputs = make(estimator), inputs_of()
    inputs["value_mask"] = np.array([[1, 1, 1, 0], [1, 1, 0, 0]])
    randomize(layer, inputs)
    expected = run(layer, inputs)
    for other in with_other_padding(inputs, "value_mask", ["value"]):
        np.testing.assert_allclose(run(layer, other), expected, 1e-5, 1e-5)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_one_key_is_the_output(estimator, training):
    query, value = normal(1, 1, 5), normal(1, 1, 4, seed=1)
    found = run(make(estimator), {"query": query, "value": value}, {"training": training})
    np.testing.assert_allclose(found, value, 1e-6)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_without_a_key_the_output_is_zero(estimator, training):
    inputs = {"query": normal(2, 3, 5), "value": np.zeros((2, 0, 5), "float32")}
    found = run(make(estimator), inputs, {"training": training})
    np.testing.assert_array_equal(found, np.zeros((2, 3, 5)))


@pytest.mark.parametrize("estimator", ["gumbel", "reinforce"])
def test_draws_repeat_by_seed_and_differ_from_call_to_call_and_seed_to_seed(estimator):
    x = ops.convert_to_tensor(normal(2, 6, 5))

    def calls(seed):
        layer = make(estimator, "dot", seed=seed)
        return [ops.convert_to_numpy(layer(x, x, training=True)) for _ in range(2)]

    first, second = calls(1)
    np.testing.assert_array_equal([first, second], calls(1))
    assert np.abs(first - second).max() > 0.1
    assert np.abs(first - calls(2)[0]).max() > 0.1


def test_draws_are_made_in_a_compiled_step_of_unknown_sizes():
    layer = make("reinforce", "dot")
    symbols = [keras.Input((None, 5)), keras.Input((None, 5))]
    output, draws = layer(*symbols, return_draws=True, training=True)
    assert output.shape == (None, None, 5) and draws["entropy"].shape == (None, None)
    model = keras.Model(symbols, [output, draws["log_probability"]])

    def call(arrays):
        return model(arrays, training=True)

    arrays = [ops.convert_to_tensor(normal(2, t, 5, seed=t)) for t in (3, 4)]
    output, log_probability = call(arrays)
    assert output.shape == (2, 3, 5) and log_probability.shape == (2, 3)
    if keras.backend.backend() == "tensorflow":
        one, two = (ops.convert_to_numpy(f(arrays)[0]) for f in [compiled(call)] for _ in range(2))
        assert np.isfinite(one).all() and np.abs(one - two).max() > 0.01


def test_the_causal_mask_holds_for_draws():
    layer, x = make("gumbel", "dot"), normal(8, 4, 5)
    for _ in range(3):
        weights = run(
            layer,
            {"query": x, "value": x},
            {"use_causal_mask": True, "return_attention_scores": True, "training": True},
            1,
        )
        np.testing.assert_array_equal(weights * np.triu(np.ones((4, 4)), 1), 0.0)


def test_masks_of_keras_work_without_an_argument():
    ids = np.array([[3, 4, 0, 0], [5, 0, 0, 0]])
    embedding = keras.layers.Embedding(9, 5, mask_zero=True)
    recurrent = keras.layers.Bidirectional(keras.layers.LSTM(3, return_sequences=True))
    tokens, layer = keras.Input((None,), dtype="int32"), make("gumbel")
    x = recurrent(embedding(tokens))
    model = keras.Model(tokens, layer(x, x, return_attention_scores=True, training=True))
    scores = ops.convert_to_numpy(model(ids)[1])
    np.testing.assert_array_equal(scores.sum(-1), ids > 0)
    np.testing.assert_array_equal(scores[0, :, 2:], 0.0)
    np.testing.assert_array_equal(scores[1, 0], [1, 0, 0, 0])


@pytest.mark.parametrize("estimator", ["gumbel", "reinforce"])
def test_large_logits_in_float16_are_finite(estimator):
    layer = make(estimator, "dot", dtype="mixed_float16")
    inputs = {"query": 200 * normal(1, 3, 64), "value": 200 * normal(1, 4, 64, seed=1)}
    for training in (False, True):
        assert np.isfinite(run(layer, inputs, {"training": training})).all()


@pytest.mark.parametrize(
    "arguments,message",
    [
        ({"estimator": "other"}, "estimator='other'"),
        ({"temperature": 0.0}, "temperature=0.0"),
        ({"sample_probability": 1.5}, "sample_probability=1.5"),
        ({"baseline_momentum": -0.1}, "baseline_momentum=-0.1"),
        ({"score": "other"}, "score='other'"),
        ({"temperature": 2.0}, 'only supported with estimator="gumbel". Received: temperature=2.0'),
        ({"estimator": "reinforce", "temperature": 2.0}, "temperature=2.0"),
        ({"estimator": "gumbel", "sample_probability": 1.0}, "sample_probability=1.0"),
        ({"baseline_momentum": 0.5}, "baseline_momentum=0.5"),
        ({"entropy_weight": 0.1}, 'with estimator="reinforce". Received: entropy_weight=0.1'),
    ],
)
def test_arguments_out_of_range_are_errors_that_name_them(arguments, message):
    with pytest.raises(ValueError, match=message):
        HardAttention(**arguments)


def test_reinforce_loss_of_another_estimator_is_an_error():
    layer, x = make(), ops.convert_to_tensor(normal(1, 2, 5))
    _, draws = layer(x, x, return_draws=True)
    with pytest.raises(ValueError, match="estimator='straight_through'"):
        layer.reinforce_loss(ops.ones((1,)), draws)
    with pytest.raises(ValueError, match="value_mask > 0.5"):
        layer(x, x, value_mask=np.ones((1, 2), "float32"))


@pytest.mark.parametrize("joined", [False, True])
def test_a_decoder_cell_takes_every_estimator_and_knows_which_has_draws(joined):
    for estimator in ESTIMATORS:
        attention = make(estimator)
        attention = LuongAttention(2, attention=attention) if joined else attention
        cell = AttentionCell(keras.layers.GRUCell(2), attention)
        assert cell.attention is not None and cell.draws == (estimator == "reinforce")
