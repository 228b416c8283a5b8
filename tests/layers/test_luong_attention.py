import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import HardAttention, LocalAttention, LocationScore, LuongAttention
from tests.support.layer_checks import check_layer, randomize, run, with_other_padding
from tests.support.numpy_attention import attention_weights, normal, softmax
from tests.support.quick import each_check

MASK = np.array([[1, 1, 0, 1], [1, 0, 0, 0]])


def make(score="general", **kwargs):
    if "attention" in kwargs:
        return LuongAttention(4, **{"seed": 1, **kwargs})
    units = 6 if score in ("concat", "additive") else None
    return LuongAttention(4, score, units, **{"seed": 1, **kwargs})


def inputs_of(depth=3):
    return {"query": normal(2, 3, 5), "value": normal(2, 4, depth, seed=1), "value_mask": MASK}


def joined(weights, attention, query, value):
    """Luong et al., eq. 5: the context first."""
    context = attention @ value
    return np.tanh(np.concatenate([context, query], axis=-1) @ weights["kernel"])


@pytest.mark.parametrize("check, score", each_check(["general", "additive", "dot"], "general"))
def test_every_check_of_global_attention(check, score):
    def reference(weights, query, value, value_mask):
        attention = attention_weights(score, weights, query, value, value_mask[:, None] > 0)
        return joined(weights, attention, query, value)

    check(lambda **k: make(score, **k), inputs_of(5 if score == "dot" else 3), reference)


def test_every_check_with_local_attention():
    def local(**kwargs):
        attention = LocalAttention(1, score="dot", name="attention", dtype=kwargs.get("dtype"))
        return make(attention=attention, **kwargs)

    def reference(weights, query, value, value_mask):
        places = np.cumsum(value_mask, axis=1) - 1  # (B, S)
        centers = np.minimum(np.arange(3), places[:, -1:])  # (B, T)
        near = np.abs(places[:, None] - centers[..., None]) <= 1
        attention = softmax(query @ value.swapaxes(1, 2), near & (value_mask[:, None] > 0))
        return joined(weights, attention, query, value)

    check_layer(local, inputs_of(5), reference)


def test_every_check_with_hard_attention():
    def hard(**kwargs):
        attention = HardAttention(score="dot", name="attention", dtype=kwargs.get("dtype"))
        return make(attention=attention, **kwargs)

    def reference(weights, query, value, value_mask):
        logits = np.where(value_mask[:, None] > 0, query @ value.swapaxes(1, 2), -1e9)
        return joined(weights, np.eye(4)[logits.argmax(-1)], query, value)

    check_layer(hard, inputs_of(5), reference)


def test_a_score_layer_and_another_activation_are_taken():
    layer = make(LocationScore(9), activation=None)
    inputs = inputs_of()
    randomize(layer, inputs)
    scores = run(layer, inputs, {"return_attention_scores": True}, 1)
    both = np.concatenate([scores @ inputs["value"], inputs["query"]], axis=-1)
    np.testing.assert_allclose(
        run(layer, inputs), both @ ops.convert_to_numpy(layer.kernel), 1e-5, 1e-5
    )


def test_arguments_of_the_attention_inside_reach_it():
    inputs, arguments = inputs_of(5), {"return_attention_scores": True}
    layer = make(attention=LocalAttention(0, score="dot"))
    positions = np.array([[3, 0, 1], [0, 0, 0]])
    found = run(layer, inputs, {"query_positions": positions, **arguments}, 1)
    places = np.array([[0, 1, 3], [0]], dtype=object)  # of the unmasked keys
    expected = [
        [np.eye(4)[places[b][min(p, len(places[b]) - 1)]] for p in positions[b]] for b in range(2)
    ]
    np.testing.assert_array_equal(found, expected)
    layer = make(attention=HardAttention("reinforce", "dot", sample_probability=1.0))
    x, y = (ops.convert_to_tensor(inputs[n]) for n in ("query", "value"))
    output, draws = layer(x, y, return_draws=True, training=True)
    assert output.shape == (2, 3, 4) and draws["log_probability"].shape == (2, 3)
    assert (ops.convert_to_numpy(draws["log_probability"]) < 0).all()


def test_a_row_with_no_key_keeps_its_query():
    layer = make()
    inputs = {**inputs_of(), "value_mask": np.array([[0, 0, 0, 0], [1, 1, 0, 0]])}
    randomize(layer, inputs)
    kernel = ops.convert_to_numpy(layer.kernel)
    np.testing.assert_allclose(
        run(layer, inputs)[0], np.tanh(inputs["query"][0] @ kernel[3:]), 1e-5, 1e-6
    )


def test_padding_never_reaches_the_output():
    layer = make("additive")
    inputs = {**inputs_of(), "value_mask": np.array([[1, 1, 1, 0], [1, 0, 0, 0]])}
    randomize(layer, inputs)
    expected = run(layer, inputs)
    for other in with_other_padding(inputs, "value_mask", ["value"]):
        np.testing.assert_allclose(run(layer, other), expected, 1e-5, 1e-5)


def test_masks_of_keras_work_without_an_argument():
    ids = np.array([[3, 4, 0, 0], [5, 0, 0, 0]])
    embedding = keras.layers.Embedding(9, 5, mask_zero=True)
    recurrent = keras.layers.Bidirectional(keras.layers.LSTM(3, return_sequences=True))
    tokens, layer = keras.Input((None,), dtype="int32"), make()
    x = recurrent(embedding(tokens))
    output, scores = keras.Model(tokens, layer(x, x, return_attention_scores=True))(ids)
    scores = ops.convert_to_numpy(scores)
    assert output.shape == (2, 4, 4)
    np.testing.assert_array_equal(scores[0, :, 2:], 0.0)
    np.testing.assert_allclose(scores[0, :2].sum(-1), 1.0, 1e-5)
    np.testing.assert_array_equal(scores[0, 2:], 0.0)


def test_decoding_with_a_cache_equals_one_full_pass_under_a_mask_of_keras():
    ids = np.array([[3, 4, 5, 1], [5, 2, 2, 1]])
    x, layer = keras.layers.Embedding(9, 5, mask_zero=True)(ids), make()
    full = ops.convert_to_numpy(layer(x, x, use_causal_mask=True))
    cache, parts = layer.attention.make_cache(2, 6, 5), []
    for i in range(0, 4, 2):
        part = keras.layers.Masking()(x[:, i : i + 2])  # a slice has no mask of its own
        output, cache = layer(part, part, cache=cache, cache_index=i)
        parts.append(ops.convert_to_numpy(output))
    np.testing.assert_allclose(np.concatenate(parts, 1), full, 1e-5, 1e-6)


def test_calls_that_cannot_be_right_are_errors():
    with pytest.raises(ValueError, match="units=0"):
        LuongAttention(0)
    with pytest.raises(ValueError, match="Received: attention='additive'"):
        LuongAttention(4, attention="additive")
    for given in ({"score": "dot"}, {"attention_units": 5}, {"dropout": 0.5}):
        with pytest.raises(ValueError, match=f"Set them in that layer. .*{next(iter(given))}="):
            LuongAttention(4, attention=HardAttention(), **given)
    with pytest.raises(ValueError, match="value_mask > 0.5"):
        make()(
            *(ops.convert_to_tensor(inputs_of()[n]) for n in ("query", "value")),
            value_mask=np.ones((2, 4), "float32"),
        )
