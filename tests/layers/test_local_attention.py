import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import Attention, LocalAttention
from tests.support.layer_checks import (
    layer_gradients,
    randomize,
    run,
    weights_of,
    with_other_padding,
)
from tests.support.numpy_attention import SCORES, attention_weights, normal, softmax
from tests.support.quick import each_check

MASK = np.array([[1, 1, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0]])


def make(window=1, alignment="monotonic", **kwargs):
    return LocalAttention(window, alignment, **{"score": "general", "seed": 1, **kwargs})


def inputs_of(query_depth=5, value_depth=4, seed=0):
    return {
        "query": normal(2, 3, query_depth, seed=seed),
        "value": normal(2, 6, value_depth, seed=seed + 1),
        "value_mask": MASK,
    }


def centers(weights, query, lengths, alignment):
    """p of each query, from 0: `S sigmoid(v^T tanh(W q))` or t, at most that of the last key."""
    found = np.zeros(query.shape[:2])
    for b, t in np.ndindex(found.shape):
        p = t
        if alignment == "predictive":
            hidden = np.tanh(query[b, t] @ weights["position_kernel"])
            p = lengths[b] / (1 + np.exp(-hidden @ weights["position_vector"][:, 0]))
        found[b, t] = min(p, lengths[b] - 1)
    return found


def local_weights(
    weights,
    query,
    value,
    value_mask,
    window,
    alignment,
    renormalize="none",
    sigma=None,
    score="general",
):
    """Luong et al., section 3.2, query by query over the keys of its window."""
    sigma = window / 2 if sigma is None else sigma
    logits = SCORES[score](
        {name.removeprefix("score/"): w for name, w in weights.items()}, query, value
    )
    found = np.zeros(logits.shape)
    places = centers(weights, query, value_mask.sum(-1), alignment)
    for b, t in np.ndindex(logits.shape[:2]):
        real, p = np.flatnonzero(value_mask[b]), places[b, t]
        s = np.arange(max(0, int(p) - window), min(len(real), int(p) + window + 1))
        scores = logits[b, t, real[s]]
        bell = np.exp(-((s - p) ** 2) / (2 * sigma**2)) if alignment == "predictive" else 1.0
        a = softmax(scores * bell) if renormalize == "scores" else softmax(scores) * bell
        found[b, t, real[s]] = a / a.sum() if renormalize == "weights" else a
    return found


@pytest.mark.parametrize("check, window", each_check([0, 1, 2], 1))
def test_every_check_of_monotonic_alignment(check, window):
    def reference(weights, query, value, value_mask):
        return local_weights(weights, query, value, value_mask, window, "monotonic") @ value

    check(lambda **k: make(window, **k), inputs_of(), reference)


@pytest.mark.parametrize(
    "check, renormalize, sigma",
    each_check([("none", None), ("weights", 0.8), ("scores", None)], ("scores", None)),
)
def test_every_check_of_predictive_alignment(check, renormalize, sigma):
    # Gradients of v and W among them, against finite differences of the formula.
    def reference(weights, query, value, value_mask):
        return (
            local_weights(weights, query, value, value_mask, 2, "predictive", renormalize, sigma)
            @ value
        )

    check(
        lambda **k: make(2, "predictive", renormalize=renormalize, sigma=sigma, **k),
        inputs_of(),
        reference,
    )


def test_predictive_positions_are_those_of_the_formula_and_weights_sum_to_less_than_1():
    layer, inputs = make(2, "predictive"), inputs_of()
    randomize(layer, inputs)
    places = centers(weights_of(layer), inputs["query"], MASK.sum(-1), "predictive")
    found = layer.positions(*inputs.values())
    np.testing.assert_allclose(ops.convert_to_numpy(found), places, 1e-5)
    scores = run(layer, inputs, {"return_attention_scores": True}, 1)
    np.testing.assert_allclose(
        scores,
        local_weights(weights_of(layer), **inputs, window=2, alignment="predictive"),
        1e-5,
        1e-6,
    )
    assert (scores.sum(-1) < 1).all() and (scores.sum(-1) > 0).all()
    layer = make(2, "predictive", renormalize="weights")
    np.testing.assert_allclose(
        run(layer, inputs, {"return_attention_scores": True}, 1).sum(-1), 1.0, 1e-5
    )


def test_the_window_is_centered_at_the_integer_part_of_the_predicted_position():
    # The paper's alignment vector has 2 D + 1 entries, which only integer centers allow; its
    # authors' code (lmthang/nmt.hybrid at 50d5c02, attnLayerForward.m) takes floor(p), too.
    layer, query, value = (
        make(2, "predictive", score="dot"),
        np.ones((1, 1, 4)),
        np.zeros((1, 8, 4)),
    )
    layer(query, value)
    layer.position_kernel.assign(np.eye(4))
    p = 3.7  # of S = 8: v^T tanh(q) = logit(p / S)
    layer.position_vector.assign(np.full((4, 1), np.log(p / (8 - p)) / np.tanh(1.0) / 4))
    positions = ops.convert_to_numpy(layer.positions(query, value))
    np.testing.assert_allclose(positions, [[p]], 1e-5)
    _, weights = layer(query, value, return_attention_scores=True)
    expected = np.zeros(8)
    expected[1:6] = np.exp(-((np.arange(1, 6) - p) ** 2) / 2) / 5
    np.testing.assert_allclose(ops.convert_to_numpy(weights)[0, 0], expected, 1e-5)


def test_v_and_w_learn_through_the_gaussian_alone():
    for sigma, moved in ((None, True), (1e9, False)):
        layer, inputs = make(2, "predictive", sigma=sigma), inputs_of()
        randomize(layer, inputs)
        by_path, _ = layer_gradients(layer, inputs)
        for name in ("position_kernel", "position_vector"):
            assert (np.abs(by_path[name]).max() > 1e-4) == moved


def test_positions_are_computed_in_float32_under_every_policy():
    # A half holds these queries exactly, so that the layer's own rounding alone is left.
    inputs = {"query": np.round(normal(1, 9, 64) * 16) / 16, "value": normal(1, 900, 4, seed=1)}
    whole, arguments = make(2, "predictive", score="additive"), {"return_attention_scores": True}
    randomize(whole, inputs)
    expected = run(whole, inputs, arguments, 1) > 0
    for policy in ("mixed_float16", "mixed_bfloat16"):
        half = make(2, "predictive", score="additive", dtype=policy)
        run(half, inputs)
        half.set_weights(whole.get_weights())
        np.testing.assert_array_equal(run(half, inputs, arguments, 1) > 0, expected)


@pytest.mark.parametrize("score", ["dot", "cosine", "concat"])
def test_monotonic_alignment_is_global_attention_under_a_band(score):
    inputs = {"query": normal(2, 6, 5), "value": normal(2, 6, 5, seed=1)}
    local, whole = make(2, score=score), Attention(score, seed=2)
    for layer in (local, whole):
        run(layer, inputs)
    whole.set_weights(local.get_weights())
    band = np.abs(np.arange(6)[:, None] - np.arange(6)) <= 2
    for index in (0, 1):
        arguments = {"return_attention_scores": True}
        np.testing.assert_allclose(
            run(local, inputs, arguments, index),
            run(whole, inputs, {"attention_mask": band, **arguments}, index),
            1e-5,
            1e-6,
        )


@pytest.mark.parametrize(
    "alignment,arguments",
    [
        ("monotonic", {}),
        ("predictive", {"sigma": 1e6}),
        ("predictive", {"sigma": 1e6, "renormalize": "weights"}),
        ("predictive", {"sigma": 1e6, "renormalize": "scores"}),
    ],
)
@pytest.mark.parametrize("window", [6, float("inf")])
def test_an_endless_window_without_a_gaussian_is_global_attention(window, alignment, arguments):
    layer, inputs = make(window, alignment, **arguments), inputs_of()
    randomize(layer, inputs)
    expected = attention_weights(
        "general", weights_of(layer), inputs["query"], inputs["value"], MASK[:, None] > 0
    )
    np.testing.assert_allclose(
        run(layer, inputs, {"return_attention_scores": True}, 1), expected, 1e-5, 1e-6
    )


@pytest.mark.parametrize("alignment", ["monotonic", "predictive"])
def test_padding_on_either_side_changes_nothing(alignment):
    layer = make(1, alignment)
    query, value = normal(1, 4, 5), normal(1, 4, 4, seed=1)
    randomize(layer, {"query": query, "value": value})
    expected = run(layer, {"query": query, "value": value})
    for left, right in ((3, 0), (0, 3), (2, 1)):
        sides = (0, 0), (left, right), (0, 0)
        mask = np.pad(np.ones((1, 4), int), sides[:2])
        found = run(
            layer,
            {"query": query, "value": np.pad(value, sides, constant_values=9), "value_mask": mask},
        )
        np.testing.assert_allclose(found, expected, 1e-5, 1e-6)
        found = run(
            layer,
            {
                "query": np.pad(query, sides, constant_values=9),
                "query_mask": mask,
                "value": np.pad(value, sides, constant_values=9),
                "value_mask": mask,
            },
        )
        np.testing.assert_allclose(found[:, left : left + 4], expected, 1e-5, 1e-6)
        np.testing.assert_array_equal(np.delete(found, range(left, left + 4), axis=1), 0.0)


@pytest.mark.parametrize("alignment", ["monotonic", "predictive"])
def test_content_and_amount_of_padding_never_reach_the_output(alignment):
    layer, inputs = make(2, alignment), inputs_of()
    inputs["value_mask"] = np.array([[1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0]])
    randomize(layer, inputs)
    expected = run(layer, inputs)
    for other in with_other_padding(inputs, "value_mask", ["value"]):
        np.testing.assert_allclose(run(layer, other), expected, 1e-5, 1e-5)


@pytest.mark.parametrize("per_row", [False, True])
def test_query_positions_place_the_window_and_end_at_the_last_key(per_row):
    layer, inputs = make(0, score="dot"), inputs_of(value_depth=5)
    given = np.array([[2, 0, 99], [1, 5, 0]] if per_row else [2, 0, 99])
    found = run(layer, inputs, {"query_positions": given, "return_attention_scores": True}, 1)
    # The unmasked keys are 0, 1, 3, 4, 5 and 0, 1, 2.
    chosen = np.array([[3, 0, 5], [1, 2, 0] if per_row else [2, 0, 2]])
    np.testing.assert_array_equal(found, np.eye(6)[chosen])


def test_decoding_word_by_word_with_positions_equals_one_pass():
    layer, inputs = make(1), inputs_of()
    randomize(layer, inputs)
    whole = run(layer, inputs)
    for t in range(3):
        step = {**inputs, "query": inputs["query"][:, t : t + 1]}
        found = run(layer, step, {"query_positions": np.array([t])})
        np.testing.assert_allclose(found[:, 0], whole[:, t], 1e-5, 1e-6)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize(
    "arguments",
    [{}, *({"alignment": "predictive", "renormalize": r} for r in ("none", "weights", "scores"))],
)
def test_a_row_with_no_key_gives_zeros_and_finite_gradients(arguments, policy):
    layer = make(2, dtype=policy, **arguments)
    inputs = {**inputs_of(), "value_mask": np.array([[0] * 6, [1, 1, 0, 0, 0, 0]])}
    randomize(layer, inputs)
    for index in (0, 1):
        found = run(layer, inputs, {"return_attention_scores": True}, index)
        np.testing.assert_array_equal(found[0], 0.0)
        assert np.abs(found[1, :2]).max(axis=-1).min() > 0
    by_path, by_input = layer_gradients(layer, inputs)
    for name, gradient in {**by_path, **by_input}.items():
        assert np.isfinite(np.asarray(gradient, "float32")).all(), name


@pytest.mark.parametrize("renormalize", ["weights", "scores"])
def test_a_narrow_gaussian_still_sums_to_1(renormalize):
    layer = make(3, "predictive", sigma=1e-3, renormalize=renormalize)
    inputs = inputs_of()
    randomize(layer, inputs)
    scores = run(layer, inputs, {"return_attention_scores": True}, 1)
    np.testing.assert_allclose(scores.sum(-1), 1.0, 1e-5)


@pytest.mark.parametrize("alignment", ["monotonic", "predictive"])
def test_one_query_and_one_key_are_enough(alignment):
    layer = make(1, alignment, **({"sigma": 1e6} if alignment == "predictive" else {}))
    query, value = normal(1, 1, 5), normal(1, 1, 4, seed=1)
    np.testing.assert_allclose(run(layer, {"query": query, "value": value}), value, 1e-5)


def test_the_causal_mask_meets_the_window():
    layer = make(1, score="dot")
    x = normal(1, 4, 5)
    found = run(
        layer,
        {"query": x, "value": x},
        {"use_causal_mask": True, "return_attention_scores": True},
        1,
    )
    i, j = np.arange(4)[:, None], np.arange(4)
    expected = attention_weights("dot", {}, x, x, (j <= i) & (j >= i - 1))
    np.testing.assert_allclose(found, expected, 1e-5, 1e-6)


@pytest.mark.parametrize("alignment", ["monotonic", "predictive"])
def test_masks_of_keras_work_without_an_argument(alignment):
    ids = np.array([[0, 3, 4, 6], [5, 0, 0, 0]])
    embedding = keras.layers.Embedding(9, 5, mask_zero=True)
    recurrent = keras.layers.Bidirectional(keras.layers.LSTM(3, return_sequences=True))
    tokens, layer = keras.Input((None,), dtype="int32"), make(1, alignment)
    x = recurrent(embedding(tokens))
    _, scores = keras.Model(tokens, layer(x, x, return_attention_scores=True))(ids)
    x = ops.convert_to_tensor(ops.convert_to_numpy(recurrent(embedding(ids))))
    explicit = run(
        layer,
        {"query": x, "value": x},
        {"query_mask": ids > 0, "value_mask": ids > 0, "return_attention_scores": True},
        1,
    )
    np.testing.assert_allclose(ops.convert_to_numpy(scores), explicit, 1e-5, 1e-6)
    np.testing.assert_array_equal(explicit[0, :, 0], 0.0)
    assert explicit[0, 1:].max(axis=-1).min() > 0


def test_dropout_repeats_by_seed_and_is_absent_at_inference_and_from_scores():
    x = ops.convert_to_tensor(normal(2, 6, 5))
    outputs = []
    for _ in range(2):
        layer = make(2, dropout=0.5)
        first = layer(x, x, training=True)
        second, scores = layer(x, x, return_attention_scores=True, training=True)
        outputs.append([ops.convert_to_numpy(t) for t in (first, second, scores, layer(x, x))])
    for one, two in zip(*outputs, strict=True):
        np.testing.assert_array_equal(one, two)
    assert np.abs(outputs[0][0] - outputs[0][1]).max() > 1e-3
    np.testing.assert_allclose(outputs[0][2].sum(-1), 1.0, 1e-5)


@pytest.mark.parametrize(
    "arguments,message",
    [
        ({"window": -1}, "window=-1"),
        ({"alignment": "random"}, "alignment='random'"),
        ({"renormalize": "all"}, "renormalize='all'"),
        ({"alignment": "predictive", "sigma": 0.0}, "sigma=0.0"),
        ({"alignment": "predictive", "window": 0}, "window=0"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"score": "other"}, "score='other'"),
        ({"window": 1.5}, "window=1.5"),
        ({"sigma": 1.0}, 'only supported with alignment="predictive". Received: sigma=1.0'),
        ({"renormalize": "scores"}, "renormalize='scores'"),
    ],
)
def test_arguments_out_of_range_are_errors_that_name_them(arguments, message):
    with pytest.raises(ValueError, match=message):
        LocalAttention(**arguments)


def test_float_masks_are_errors():
    layer, x = make(score="dot"), ops.convert_to_tensor(normal(2, 3, 5))
    for name, shape in (
        ("attention_mask", (2, 3, 3)),
        ("value_mask", (2, 3)),
        ("query_mask", (2, 3)),
    ):
        with pytest.raises(ValueError, match=f"{name} > 0.5"):
            layer(x, x, **{name: np.ones(shape, "float32")})
