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
from tests.support.layer_checks import (
    compiled,
    layer_gradients,
    randomize,
    run,
    weights_of,
    with_other_padding,
)
from tests.support.numpy_attention import attention_weights, normal
from tests.support.quick import each_check, quick

GOLDEN = np.load(
    pathlib.Path(__file__).parents[1] / "golden" / "joeynmt_attention.npz", allow_pickle=False
)
NAMES = ["dot", "scaled_dot", "bilinear", "general", "cosine", "concat", "additive"]
SCORES = [*NAMES, "location"]
MASK = np.array([[1, 1, 0, 1], [1, 0, 0, 0]])


def make(score="scaled_dot", **kwargs):
    dtype = kwargs.get("dtype")
    if score == "location":
        score = LocationScore(9, seed=1, name="score", dtype=dtype)
    units = 6 if score in ("concat", "additive") else None
    return Attention(score, units, **{"seed": 1, **kwargs})


def inputs_of(query_depth=5, value_depth=5):
    return {
        "query": normal(2, 3, query_depth),
        "value": normal(2, 4, value_depth, seed=1),
        "value_mask": MASK,
    }


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


@pytest.mark.parametrize("align,offset", [("end", 1), ("start", 0)])
@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_causal_mask_is_aligned_as_asked(score, align, offset):
    layer = make(score, causal_align=align)
    inputs = {"query": normal(1, 3, 5), "value": normal(1, 4, 5, seed=1)}
    found = run(layer, inputs, {"use_causal_mask": True, "return_attention_scores": True}, index=1)
    visible = np.arange(4) <= np.arange(3)[:, None] + offset
    expected = attention_weights(score, weights_of(layer), *inputs.values(), visible)
    np.testing.assert_allclose(found, expected, 1e-5, 1e-6)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (1, 3, 4), (2, 3, 4), (2, 1, 4)])
@pytest.mark.parametrize("score", ["scaled_dot", "concat"])
def test_attention_mask_may_have_any_shape_that_broadcasts(score, shape):
    layer, mask = make(score), np.random.default_rng(0).integers(0, 2, shape)
    inputs = {"query": normal(2, 3, 5), "value": normal(2, 4, 5, seed=1)}
    found = run(layer, inputs, {"attention_mask": mask, "return_attention_scores": True}, index=1)
    expected = attention_weights(score, weights_of(layer), *inputs.values(), mask > 0)
    np.testing.assert_allclose(found, expected, 1e-5, 1e-6)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("score", SCORES)
def test_a_row_with_no_key_gives_zeros_and_finite_gradients(score, policy):
    layer = make(score, dtype=policy)
    inputs = {**inputs_of(), "value_mask": np.array([[0, 0, 0, 0], [1, 1, 0, 0]])}
    randomize(layer, inputs)
    for index in (0, 1):
        found = run(layer, inputs, {"return_attention_scores": True}, index)
        np.testing.assert_array_equal(found[0], 0.0)
        assert np.abs(found[1]).max(axis=-1).min() > 0
    np.testing.assert_array_equal(run(layer, inputs)[0], 0.0)
    by_path, by_input = layer_gradients(layer, inputs)
    for name, gradient in {**by_path, **by_input}.items():
        assert np.isfinite(np.asarray(gradient, "float32")).all(), name
    np.testing.assert_array_equal(np.asarray(by_input["value"][0], "float32"), 0.0)


@pytest.mark.parametrize("score", SCORES)
def test_padding_never_reaches_the_output(score):
    layer, inputs = make(score), inputs_of()
    inputs["value_mask"] = np.array([[1, 1, 1, 0], [1, 0, 0, 0]])
    randomize(layer, inputs)
    expected = run(layer, inputs)
    for other in with_other_padding(inputs, "value_mask", ["value"]):
        np.testing.assert_allclose(run(layer, other), expected, 1e-5, 1e-5)


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


@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_query_mask_silences_queries_and_hides_no_key(score):
    layer, x = make(score), normal(1, 3, 5)
    randomize(layer, {"query": x, "value": x})
    named = {"query": x, "value": x, "query_mask": np.array([[1, 0, 1]])}
    for index in (0, 1):
        arguments = {"return_attention_scores": True}
        plain = run(layer, {"query": x, "value": x}, arguments, index)
        found = run(layer, named, arguments, index)
        np.testing.assert_allclose(found[:, [0, 2]], plain[:, [0, 2]], 1e-6, 1e-6)
        np.testing.assert_array_equal(found[:, 1], 0.0)


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


@pytest.mark.filterwarnings("error:.*mask:UserWarning")
@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_masks_of_keras_work_without_an_argument(score):
    ids = np.array([[3, 4, 0, 0], [5, 0, 0, 0]])
    embedding = keras.layers.Embedding(9, 5, mask_zero=True)
    recurrent = keras.layers.Bidirectional(keras.layers.LSTM(3, return_sequences=True))
    layer, tokens = make(score), keras.Input((None,), dtype="int32")
    x = recurrent(embedding(tokens))
    output, scores = keras.Model(tokens, layer(x, x, return_attention_scores=True))(ids)
    assert [w.shape for w in (output, scores)] == [(2, 4, 6), (2, 4, 4)]
    scores = ops.convert_to_numpy(scores)
    np.testing.assert_array_equal(scores[0, :, 2:], 0.0)
    np.testing.assert_array_equal(scores[0, 2:], 0.0)
    np.testing.assert_allclose(scores[0, :2].sum(-1), 1.0, 1e-5)
    x = recurrent(embedding(ids))
    plain = ops.convert_to_tensor(ops.convert_to_numpy(x))  # without the mask
    explicit = layer(plain, plain, query_mask=ids > 0, value_mask=ids > 0)
    np.testing.assert_allclose(
        ops.convert_to_numpy(output), ops.convert_to_numpy(explicit), 1e-5, 1e-6
    )
    last = keras.layers.LSTM(2)  # the mask of the query goes on
    np.testing.assert_allclose(
        ops.convert_to_numpy(last(layer(x, x))),
        ops.convert_to_numpy(last(explicit, mask=ops.convert_to_tensor(ids > 0))),
        1e-5,
        1e-6,
    )


@pytest.mark.parametrize("step", quick([1, 2], 2))
@pytest.mark.parametrize("score", SCORES)
def test_decoding_with_a_cache_equals_one_full_pass(score, step):
    layer = make(score)
    x = ops.convert_to_tensor(normal(2, 6, 5))
    value = ops.convert_to_tensor(normal(2, 6, 3, seed=1))
    mask = np.array([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1]])
    full, full_scores = layer(
        x, value, x, value_mask=mask, use_causal_mask=True, return_attention_scores=True
    )
    longer = np.concatenate([mask, np.ones((2, 2), int)], axis=1)

    def decode(query, value, cache, index):
        return layer(
            query,
            value,
            query,
            value_mask=longer,
            cache=cache,
            cache_index=index,
            return_attention_scores=True,
        )

    for function in (decode, compiled(decode)) if score == "additive" else (decode,):
        cache, parts = layer.make_cache(2, 8, key_dim=5, value_dim=3), []
        for i in range(0, 6, step):
            *found, cache = function(
                x[:, i : i + step],
                value[:, i : i + step],
                cache,
                ops.convert_to_tensor(i, dtype="int32"),
            )
            parts.append([ops.convert_to_numpy(part) for part in found])
        outputs, scores = (np.concatenate(part, 1) for part in zip(*parts, strict=True))
        np.testing.assert_allclose(outputs, ops.convert_to_numpy(full), 1e-5, 1e-6)
        np.testing.assert_array_equal(scores[..., 6:], 0.0)
        np.testing.assert_allclose(scores[..., :6], ops.convert_to_numpy(full_scores), 1e-5, 1e-6)


def test_a_mask_of_keras_is_no_mask_of_the_cache():
    embedding = keras.layers.Embedding(9, 5, mask_zero=True)
    x, layer = embedding(np.array([[3, 0, 2]])), make("additive")
    plain = ops.convert_to_tensor(ops.convert_to_numpy(x))
    query_mask = np.array([[1, 0, 1]])
    expected = layer(plain, plain, query_mask=query_mask, use_causal_mask=True)
    found, _ = layer(x, x, cache=layer.make_cache(1, 5, 5), cache_index=0)
    np.testing.assert_allclose(
        ops.convert_to_numpy(found), ops.convert_to_numpy(expected), 1e-5, 1e-6
    )


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
