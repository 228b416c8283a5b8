import re

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import AttentionPooling
from tests.support.layer_checks import (
    check_compiled,
    check_config,
    check_gradients,
    check_half_precision,
    check_layer,
    layer_gradients,
    randomize,
    run,
    weights_of,
    with_other_padding,
)
from tests.support.numpy_attention import normal, softmax

MASK = np.array([[1, 1, 0, 1], [1, 0, 0, 0]])


def make(score="context", **kwargs):
    return AttentionPooling(
        **{"units": None if score == "linear" else 2, "score": score, "seed": 1, **kwargs}
    )


def inputs_of(score="context"):
    inputs = {"inputs": normal(2, 4, 5), "mask": MASK}
    return {**inputs, "query": normal(2, 2, seed=1)} if score == "query" else inputs


def pooling_weights(weights, inputs, mask=True, query=None):
    """Yang et al., eq. 5-6; with a query of the caller's, that instead of u."""
    hidden = np.tanh(inputs @ weights["kernel"] + weights["bias"])
    context = weights["context"][:, 0] if query is None else query[:, None]
    return softmax((hidden * context).sum(-1), np.asarray(mask) > 0)


def pooled(weights, inputs, mask=True, query=None):
    return (pooling_weights(weights, inputs, mask, query)[..., None] * inputs).sum(1)


def renormalized(weights, inputs, mask):
    """The note's way: relu, softmax over all steps, mask, division by the sum."""
    a = softmax(np.maximum(inputs @ weights["kernel"], 0)[..., 0]) * mask
    return (a[..., None] * inputs).sum(1) / a.sum(1)[:, None]


def seed_note(**kwargs):
    return make("linear", activation="relu", **kwargs)


def test_every_check_with_steps_masked():
    check_layer(make, inputs_of(), pooled)


def test_every_check_with_a_query():
    # But that of a query of unknown depth, which cannot be.
    def make_query(**kwargs):
        return make("query", **kwargs)

    layer, inputs = make_query(), inputs_of("query")
    randomize(layer, inputs)
    expected = pooled(weights_of(layer), **inputs)
    np.testing.assert_allclose(run(layer, inputs), expected, 1e-5, 1e-5)
    check_gradients(layer, inputs, pooled)
    check_config(layer, make_query)
    check_half_precision(layer, make_query, inputs, {}, expected, 0.05)
    check_compiled(layer, inputs, {}, expected, 1e-5)


def test_every_check_of_the_notes_formula():
    check_layer(seed_note, inputs_of(), renormalized)


def test_every_check_with_lengths():
    def reference(weights, inputs, lengths):
        return pooled(weights, inputs, np.arange(4) < lengths[:, None])

    check_layer(make, {"inputs": normal(2, 4, 5), "lengths": np.array([4, 2])}, reference)


@pytest.mark.parametrize("score", ["context", "linear"])
def test_a_huge_padded_value_changes_nothing(score):
    # Where all is exponentiated before it is masked, the real weights are 0, and their sum too.
    layer, inputs = make(score, activation="relu"), inputs_of()
    randomize(layer, inputs)
    expected = run(layer, inputs)
    for huge in (1e4, 1e20):
        other = {**inputs, "inputs": np.where(MASK[..., None] > 0, inputs["inputs"], huge)}
        other["inputs"] = other["inputs"].astype("float32")
        np.testing.assert_allclose(run(layer, other), expected, 1e-5, 1e-6)
        by_path, by_input = layer_gradients(layer, other)
        assert all(np.isfinite(g).all() for g in {**by_path, **by_input}.values())
        np.testing.assert_array_equal(by_input["inputs"][MASK == 0], 0.0)


@pytest.mark.parametrize("score", ["context", "linear", "query"])
def test_other_or_more_padding_changes_nothing(score):
    layer, inputs = make(score), inputs_of(score)
    inputs["mask"] = np.array([[1, 1, 1, 0], [1, 0, 0, 0]])
    randomize(layer, inputs)
    expected = run(layer, inputs)
    for other in with_other_padding(inputs, "mask", ["inputs"]):
        np.testing.assert_allclose(run(layer, other), expected, 1e-5, 1e-5)


def test_steps_count_that_both_mask_and_lengths_name():
    layer, x, lengths = make(), normal(2, 4, 5), np.array([2, 9])
    randomize(layer, {"inputs": x})
    both = MASK * (np.arange(4) < lengths[:, None])
    found = run(
        layer, {"inputs": x, "mask": MASK, "lengths": lengths}, {"return_attention_scores": True}, 1
    )
    np.testing.assert_allclose(found, pooling_weights(weights_of(layer), x, both), 1e-5, 1e-6)
    np.testing.assert_allclose(found.sum(-1), 1.0, 1e-5)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("score", ["context", "linear"])
def test_a_length_of_0_gives_zeros_and_finite_gradients(score, policy):
    layer = make(score, dtype=policy)
    inputs = {"inputs": normal(2, 4, 5), "lengths": np.array([0, 2])}
    randomize(layer, inputs)
    for index in (0, 1):
        found = run(layer, inputs, {"return_attention_scores": True}, index)
        np.testing.assert_array_equal(found[0], 0.0)
        assert np.abs(found[1]).max() > 0
    by_path, by_input = layer_gradients(layer, inputs)
    for name, gradient in {**by_path, **by_input}.items():
        assert np.isfinite(np.asarray(gradient, "float32")).all(), name
    np.testing.assert_array_equal(np.asarray(by_input["inputs"][0], "float32"), 0.0)
    nothing = {"inputs": np.zeros((2, 0, 5), "float32")}
    np.testing.assert_array_equal(run(layer, nothing), np.zeros((2, 5)))


@pytest.mark.parametrize("score", ["context", "linear"])
def test_one_padded_row_and_one_step_keep_their_dimensions(score):
    layer, x = make(score), normal(1, 3, 5)
    randomize(layer, {"inputs": x})
    one = run(layer, {"inputs": x, "lengths": np.array([1])})
    np.testing.assert_allclose(one, x[:, 0], 1e-6)
    np.testing.assert_allclose(run(layer, {"inputs": x[:, :1]}), x[:, 0], 1e-6)
    assert run(layer, {"inputs": x[:, :1]}, {"return_attention_scores": True}, 1).shape == (1, 1)


def test_a_query_equal_to_the_context_gives_the_same():
    inputs, context, query = inputs_of(), make(), make("query")
    randomize(context, inputs)
    given = {**inputs, "query": np.repeat(ops.convert_to_numpy(context.context).T, 2, axis=0)}
    run(query, given)
    query.kernel.assign(context.kernel)
    query.bias.assign(context.bias)
    np.testing.assert_allclose(run(query, given), run(context, inputs), 1e-5, 1e-6)


def test_one_query_for_all_rows_without_an_activation_is_a_linear_score():
    linear, query = make("linear", activation=None), make("query", activation=None)
    given = {**inputs_of(), "query": np.repeat(normal(1, 2, seed=1), 2, axis=0)}
    randomize(query, given)
    run(linear, inputs_of())
    linear.kernel.assign(ops.convert_to_numpy(query.kernel) @ given["query"][:1].T)
    np.testing.assert_allclose(run(query, given), run(linear, inputs_of()), 1e-5, 1e-6)


@pytest.mark.filterwarnings("error:.*mask:UserWarning")
@pytest.mark.parametrize("score", ["context", "linear", "query"])
def test_masks_of_keras_work_without_an_argument(score):
    ids = np.array([[3, 4, 0, 0], [5, 0, 0, 0]])
    query = {"query": normal(2, 2)} if score == "query" else {}
    lengths = {"lengths": np.array([1, 4])}
    embedding = keras.layers.Embedding(9, 5, mask_zero=True)
    recurrent = keras.layers.Bidirectional(keras.layers.LSTM(3, return_sequences=True))
    layer = make(score)
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    symbols = {
        n: keras.Input(x.shape[1:], dtype=x.dtype.name, name=n)
        for n, x in {**query, **lengths}.items()
    }
    x = recurrent(embedding(tokens))
    for names, mask in (
        ([*query], ids > 0),
        ([*query, "lengths"], np.array([[1, 0, 0, 0], [1, 0, 0, 0]])),
    ):
        output = layer(x, **{n: symbols[n] for n in names})
        assert getattr(output, "_keras_mask", None) is None
        model = keras.Model({"tokens": tokens, **{n: symbols[n] for n in names}}, output)
        given = {n: {**query, **lengths}[n] for n in names}
        found = ops.convert_to_numpy(model({"tokens": ids, **given}))
        plain = ops.convert_to_numpy(recurrent(embedding(ids)))
        explicit = run(layer, {"inputs": plain, "mask": np.asarray(mask, int), **query})
        np.testing.assert_allclose(found, explicit, 1e-5, 1e-6)


def test_a_mask_that_is_given_takes_the_place_of_that_of_keras():
    layer = make()
    x = keras.layers.Masking()(ops.convert_to_tensor(inputs_of()["inputs"]))
    plain = inputs_of()["inputs"]
    found = layer(x, mask=ops.convert_to_tensor(MASK))
    np.testing.assert_allclose(
        ops.convert_to_numpy(found), run(layer, {"inputs": plain, "mask": MASK}), 1e-6
    )


@pytest.mark.parametrize("score", ["context", "linear", "query"])
def test_large_values_in_float16_are_finite(score):
    layer, inputs = make(score, dtype="mixed_float16"), inputs_of(score)
    inputs = {n: 3000 * x if x.dtype.kind == "f" else x for n, x in inputs.items()}
    assert np.isfinite(run(layer, inputs)).all()


def test_dropout_repeats_by_seed_and_is_absent_at_inference_and_from_scores():
    x = ops.convert_to_tensor(normal(2, 6, 5))
    outputs = []
    for _ in range(2):
        layer = make(dropout=0.5)
        first = layer(x, training=True)
        second, scores = layer(x, return_attention_scores=True, training=True)
        outputs.append([ops.convert_to_numpy(t) for t in (first, second, scores, layer(x))])
    for one, two in zip(*outputs, strict=True):
        np.testing.assert_array_equal(one, two)
    first, second, scores, quiet = outputs[0]
    assert np.abs(first - second).max() > 1e-3
    np.testing.assert_allclose(scores.sum(-1), 1.0, 1e-5)
    np.testing.assert_allclose(quiet, run(make(), {"inputs": x}), 1e-6, 1e-6)


@pytest.mark.parametrize(
    "arguments,message",
    [
        ({"units": 0}, "units=0"),
        ({"score": "mean"}, "score='mean'"),
        ({"score": "linear", "units": 3}, "units=3"),
        ({"dropout": 1.0}, "dropout=1.0"),
    ],
)
def test_arguments_out_of_range_are_errors_that_name_them(arguments, message):
    with pytest.raises(ValueError, match=message):
        AttentionPooling(**arguments)


def test_calls_that_cannot_be_right_are_errors():
    x = ops.convert_to_tensor(normal(2, 3, 5))
    with pytest.raises(ValueError, match=r"inputs must be of shape \(B, T, D\). .* shape \(2, 5\)"):
        make()(x[:, 0])
    with pytest.raises(ValueError, match="Received: query=None, score='query'"):
        make("query")(x)
    for shape in ((2, 5), (2,), (2, 1, 2)):
        with pytest.raises(ValueError, match=rf"\(B, 2\). Received: .* {re.escape(str(shape))}"):
            make("query")(x, query=normal(*shape))
    with pytest.raises(ValueError, match="score='context'"):
        make()(x, query=normal(2, 2))
    with pytest.raises(ValueError, match="mask > 0.5"):
        make()(x, mask=np.ones((2, 3), "float32"))
