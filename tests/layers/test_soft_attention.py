"""Soft attention by each score: values, seeds, scores of one's own, and wrong arguments."""

import pathlib

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import (
    AdditiveScore,
    Attention,
    AttentionCell,
    DotScore,
    HardAttention,
    LocalAttention,
    LocationScore,
    MultiHeadAttention,
)
from tests.support.layer_checks import randomize, run, weights_of
from tests.support.numpy_attention import attention_weights, normal
from tests.support.quick import each_check
from tests.support.small_soft_attention import MASK, NAMES, SCORES, inputs_of, make

GOLDEN = np.load(
    pathlib.Path(__file__).parents[1] / "golden" / "joeynmt_attention.npz", allow_pickle=False
)


def reference(score):
    def output(weights, query, value, key=None, value_mask=None):
        mask = True if value_mask is None else value_mask[:, None] > 0
        key = value if key is None else key
        return attention_weights(score, weights, query, key, mask) @ value

    return output


@pytest.mark.parametrize("check, score", each_check(SCORES, "scaled_dot", "additive"))
def test_every_check_of_a_layer_with_keys_masked(check, score):
    depth = 5 if "dot" in score or score == "cosine" else 4
    check(lambda **k: make(score, **k), inputs_of(value_depth=depth), reference(score))


@pytest.mark.parametrize("check, score", each_check(["scaled_dot", "additive"], "additive"))
def test_every_check_of_a_layer_with_values_of_another_depth_than_keys(check, score):
    inputs = {
        "query": normal(2, 3, 5),
        "value": normal(2, 4, 6, seed=1),
        "key": normal(2, 4, 5, seed=2),
    }
    check(lambda **k: make(score, **k), inputs, reference(score))


@pytest.mark.parametrize(
    "score,name,paths",
    [
        (
            "additive",
            "bahdanau",
            {
                "query_kernel": "query_layer.weight",
                "key_kernel": "key_layer.weight",
                "vector": "energy_layer.weight",
            },
        ),
        ("general", "luong", {"kernel": "key_layer.weight"}),
    ],
)
def test_joeynmt_gives_the_same_numbers(score, name, paths):
    layer = Attention(score, units=7 if score == "additive" else None)
    inputs = {n: GOLDEN[n].astype("float32") for n in ("query", "value")}
    inputs["value_mask"] = GOLDEN["value_mask"]
    run(layer, inputs)
    for ours, theirs in paths.items():
        weight = GOLDEN[f"{name}/{theirs}"]
        getattr(layer.score, ours).assign(weight.T if score == "additive" else weight)
    for index, part in enumerate(("context", "scores")):
        found = run(layer, inputs, {"return_attention_scores": True}, index=index)
        np.testing.assert_allclose(found, GOLDEN[f"{name}/{part}"], 1e-5, 1e-6)


@pytest.mark.parametrize("causal", [False, True])
def test_dot_is_the_attention_of_keras(causal):
    query, value, key = (normal(2, 4, 5, seed=s) for s in range(3))
    query_mask, value_mask = np.array([[1, 1, 1, 0], [1, 1, 1, 1]]) > 0, MASK > 0
    theirs, their_scores = keras.layers.Attention()(
        [query, value, key],
        mask=[query_mask, value_mask],
        use_causal_mask=causal,
        return_attention_scores=True,
    )
    found, scores = Attention("dot", causal_align="start")(
        query,
        value,
        key,
        query_mask=query_mask,
        value_mask=value_mask,
        use_causal_mask=causal,
        return_attention_scores=True,
    )
    theirs, their_scores, found, scores = (
        ops.convert_to_numpy(x) for x in (theirs, their_scores, found, scores)
    )
    np.testing.assert_allclose(found, theirs, 1e-5, 1e-6)
    # Their weights of a masked query are those of a query.
    np.testing.assert_allclose(scores, their_scores * query_mask[..., None], 1e-5, 1e-6)


@pytest.mark.parametrize("score", NAMES)
def test_keys_in_another_order_get_the_same_weights(score):
    layer, inputs = make(score), inputs_of()
    randomize(layer, inputs)
    arguments, order = {"return_attention_scores": True}, np.array([2, 0, 3, 1])
    other = {**inputs, "value": inputs["value"][:, order], "value_mask": MASK[:, order]}
    np.testing.assert_allclose(run(layer, other), run(layer, inputs), 1e-5, 1e-6)
    np.testing.assert_allclose(
        run(layer, other, arguments, 1), run(layer, inputs, arguments, 1)[..., order], 1e-5, 1e-6
    )


@pytest.mark.parametrize("score", SCORES)
def test_one_key_is_the_output_and_none_gives_0(score):
    query, value = normal(1, 1, 5), normal(1, 1, 5, seed=1)
    np.testing.assert_allclose(run(make(score), {"query": query, "value": value}), value, 1e-6)
    none = {"query": query, "value": np.zeros((1, 0, 5), "float32")}
    np.testing.assert_array_equal(run(make(score), none), np.zeros((1, 1, 5)))


@pytest.mark.parametrize("score", SCORES)
def test_large_logits_in_float16_are_finite(score):
    layer = make(score, dtype="mixed_float16")
    inputs = {"query": 200 * normal(1, 3, 64), "value": 200 * normal(1, 4, 64, seed=1)}
    found = run(layer, inputs, {"return_attention_scores": True}, index=1)
    expected = attention_weights(score, weights_of(layer), *inputs.values())
    # Half a unit in the last place of a logit of many thousands may turn a weight.
    decided = np.sort(expected, axis=-1)[..., -1] > 0.999
    assert np.isfinite(found).all() and np.isfinite(run(layer, inputs)).all()
    np.testing.assert_allclose(found.sum(-1), 1.0, 2e-3)
    np.testing.assert_array_equal(found.argmax(-1)[decided], expected.argmax(-1)[decided])


@pytest.mark.parametrize("score", ["scaled_dot", "concat"])
def test_dropout_repeats_by_seed_and_is_absent_at_inference_and_from_scores(score):
    x = ops.convert_to_tensor(normal(2, 6, 5))
    outputs = []
    for _ in range(2):
        layer = make(score, dropout=0.5)
        first = layer(x, x, training=True)
        second, scores = layer(x, x, return_attention_scores=True, training=True)
        outputs.append([ops.convert_to_numpy(t) for t in (first, second, scores, layer(x, x))])
    for one, two in zip(*outputs, strict=True):
        np.testing.assert_array_equal(one, two)
    first, second, scores, quiet = outputs[0]
    assert np.abs(first - second).max() > 1e-3
    np.testing.assert_allclose(scores.sum(-1), 1.0, 1e-5)
    np.testing.assert_allclose(quiet, run(make(score), {"query": x, "value": x}), 1e-6, 1e-6)


class OfOneShape(keras.layers.Layer):
    """A dot product that builds itself by the shape of the query."""

    def build(self, input_shape):
        self.factor = self.add_weight(name="factor", shape=(input_shape[-1],), initializer="ones")

    def call(self, query, key):
        return ops.matmul(query * self.factor, ops.swapaxes(key, 1, 2))


class OfNoShape(keras.layers.Layer):
    """A dot product whose parts build themselves when they are called."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(5, use_bias=False, kernel_initializer="identity")

    def call(self, query, key):
        return ops.matmul(self.dense(query), ops.swapaxes(key, 1, 2))


@pytest.mark.parametrize("score", [OfOneShape, OfNoShape])
@pytest.mark.parametrize("layer", [Attention, LocalAttention, HardAttention])
def test_a_score_of_ones_own_is_built_as_keras_builds_layers(layer, score):
    inputs, options = inputs_of(), {"window": 9} if layer is LocalAttention else {}
    found = layer(score=score(name="own"), **options)
    np.testing.assert_allclose(
        run(found, inputs), run(layer(score="dot", **options), inputs), 1e-5, 1e-6
    )
    (weight,) = found.trainable_variables
    assert weight.path.startswith(f"{found.name}/own/")
    symbols = [keras.Input((None, 5)), keras.Input((None, 5))]
    model = keras.Model(symbols, layer(score=score(), **options)(*symbols))
    assert model.output_shape == (None, None, 5)


class Negative:
    def call(self, query, key):
        return -super().call(query, key)


class NegativeDot(Negative, DotScore):
    pass


class NegativeAdditive(Negative, AdditiveScore):
    pass


@pytest.mark.parametrize(
    "negative,plain",
    [(NegativeDot(1.0), DotScore(1.0)), (NegativeAdditive(3, seed=1), AdditiveScore(3, seed=1))],
)
def test_a_kind_of_a_score_is_called_as_it_is(negative, plain):
    x = normal(2, 4, 5)
    found, weights = Attention(negative)(x, x, return_attention_scores=True)
    logits = ops.convert_to_numpy(plain(x, x))
    expected = np.exp(-logits) / np.exp(-logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(ops.convert_to_numpy(weights), expected, 1e-4, 1e-6)
    np.testing.assert_allclose(ops.convert_to_numpy(found), expected @ x, 1e-4, 1e-5)
    np.testing.assert_allclose(
        run(Attention(negative), {"query": x, "value": x}), expected @ x, 1e-4, 1e-5
    )
    cell = AttentionCell(keras.layers.GRUCell(5), Attention(negative), input_feeding=False)
    memory = cell.prepare_memory(x)
    cell.build((None, 2), x.shape)
    found, weights = cell.read_out({"output": ops.convert_to_tensor(x)}, None, memory)
    np.testing.assert_allclose(ops.convert_to_numpy(weights), expected, 1e-4, 1e-6)


def test_one_score_may_serve_two_layers():
    inputs, score = inputs_of(), LocationScore(9)
    one, two = Attention(score), Attention(score)
    np.testing.assert_array_equal(run(one, inputs), run(two, inputs))


@pytest.mark.parametrize(
    "arguments,message",
    [
        (
            {"score": "cosinus"},
            "one of dot, scaled_dot, bilinear, general, cosine, concat, additive. "
            "Received: score='cosinus'",
        ),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"causal_align": "middle"}, "causal_align='middle'"),
        ({"score": "additive", "units": 0}, "units=0"),
        ({"score": ["dot"]}, r"Received: score=\['dot'\]"),
        ({"score": "dot", "units": 5}, "concat or additive.* Received: units=5, score='dot'"),
        ({"score": LocationScore(9), "units": 5}, "Received: units=5"),
    ],
)
def test_arguments_out_of_range_are_errors_that_name_them(arguments, message):
    with pytest.raises(ValueError, match=message):
        Attention(**arguments)


@pytest.mark.parametrize(
    "shapes,message",
    [
        (
            [(2, 5), (2, 4, 5)],
            r"query must be of shape \(B, T, .\). Received: query of shape \(2, 5\)",
        ),
        (
            [(2, 3, 5), (4, 5)],
            r"value must be of shape \(2, .*\). Received: value of shape \(4, 5\)",
        ),
        (
            [(2, 3, 5), (2, 4, 5), (2, 3, 5)],
            r"key must be of shape \(2, 4, K\). Received: "
            r"key of shape \(2, 3, 5\), value of shape \(2, 4, 5\)",
        ),
    ],
)
@pytest.mark.parametrize(
    "layer", [Attention, LocalAttention, HardAttention, lambda: MultiHeadAttention(2, 2)]
)
def test_shapes_that_cannot_be_right_are_errors(layer, shapes, message):
    with pytest.raises(ValueError, match=message):
        layer()(*(np.ones(shape, "float32") for shape in shapes))


def test_calls_that_cannot_be_right_are_errors():
    x, layer = ops.convert_to_tensor(normal(2, 3, 5)), make()
    with pytest.raises(ValueError, match=r"key must be of shape \(2, S, 5\)"):
        make()(x, ops.ones((2, 3, 7)))
    for name, shape in (
        ("attention_mask", (2, 3, 3)),
        ("value_mask", (2, 3)),
        ("query_mask", (2, 3)),
    ):
        with pytest.raises(ValueError, match=f"{name} > 0.5"):
            layer(x, x, **{name: np.ones(shape, "float32")})
    with pytest.raises(ValueError, match=r"given together. Received: only cache\b"):
        layer(x, x, cache=layer.make_cache(2, 4, 5))
    with pytest.raises(ValueError, match="given together. Received: only cache_index"):
        layer(x, x, cache_index=0)
    with pytest.raises(ValueError, match="up to 5"):
        layer(x, x, cache=layer.make_cache(2, 4, 5), cache_index=2)
