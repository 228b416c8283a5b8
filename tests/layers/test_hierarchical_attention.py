import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers.attention_pooling import AttentionPooling
from keras_attn.layers.attentive_conv_pooling import AttentiveConvPooling
from keras_attn.layers.hierarchical_attention import HierarchicalAttention
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

MASK = np.array([[[1, 1, 1], [1, 0, 0], [0, 0, 0]], [[1, 1, 0], [1, 1, 1], [1, 0, 0]]])


def make(**kwargs):
    return HierarchicalAttention(3, 2, 4, **{"seed": 1, **kwargs})


def words(seed=0, shape=(2, 3, 3, 5)):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gru(weights, prefix, x):
    """Keras's GRU (reset after the product) over the steps `(T, D)` of one row."""
    kernel, recurrent, bias = (
        next(v for k, v in weights.items() if k.startswith(prefix) and k.endswith(f"/{name}"))
        for name in ("kernel", "recurrent_kernel", "bias")
    )
    units = recurrent.shape[0]
    h, found = np.zeros(units), []
    for step in x:
        z, r, candidate = np.split(step @ kernel + bias[0], 3)
        hz, hr, hc = np.split(h @ recurrent + bias[1], 3)
        z = sigmoid(z + hz)
        h = z * h + (1 - z) * np.tanh(candidate + sigmoid(r + hr) * hc)
        found.append(h)
    return np.array(found)


def lstm(weights, prefix, x):
    kernel, recurrent, bias = (
        next(v for k, v in weights.items() if k.startswith(prefix) and k.endswith(f"/{name}"))
        for name in ("kernel", "recurrent_kernel", "bias")
    )
    h = c = np.zeros(recurrent.shape[0])
    for step in x:
        i, f, g, o = np.split(step @ kernel + h @ recurrent + bias, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    return h


def level(weights, name, x):
    """Yang et al., eq. 1-7: the vector and the weights of one row of real steps."""
    hidden = np.concatenate(
        [
            gru(weights, f"{name}_gru/forward", x),
            gru(weights, f"{name}_gru/backward", x[::-1])[::-1],
        ],
        axis=1,
    )
    u = np.tanh(hidden @ weights[f"{name}_attention/kernel"] + weights[f"{name}_attention/bias"])
    e = np.exp((u @ weights[f"{name}_attention/context"])[:, 0])
    return e / e.sum() @ hidden, e / e.sum()


def reference(weights, inputs, mask):
    vectors, word_weights = [], np.zeros(mask.shape)
    sentence_weights = np.zeros(mask.shape[:2])
    for row, (document, real) in enumerate(zip(inputs, mask > 0, strict=True)):
        sentences, places = [], []
        for i in np.flatnonzero(real.any(axis=1)):
            vector, word_weights[row, i, real[i]] = level(
                weights, "word", document[i][real[i]].astype("float64")
            )
            sentences.append(vector)
            places.append(i)
        vector, sentence_weights[row, places] = level(weights, "sentence", np.array(sentences))
        vectors.append(vector)
    return np.array(vectors), word_weights, sentence_weights


@pytest.mark.thorough
def test_both_levels_agree_with_loops_in_numpy():
    layer, inputs = make(), {"inputs": words(), "mask": MASK}
    randomize(layer, inputs)
    found = layer(inputs["inputs"], mask=MASK, return_attention_scores=True)
    wanted = reference(weights_of(layer), **inputs)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ops.convert_to_numpy(one), other, 1e-5, 1e-5)
    check_gradients(layer, inputs, lambda *w, **i: reference(*w, **i)[0])
    check_config(layer, make)
    check_compiled(layer, inputs, {}, wanted[0], 1e-5)
    check_half_precision(layer, make, inputs, {}, wanted[0], 0.05)


def test_a_third_level_is_attention_over_the_vectors_of_two():
    # A document of two paragraphs; the level of words has no GRU.
    layer = HierarchicalAttention(None, 2, 4, higher_units=(3,))
    inputs = {"inputs": words(shape=(1, 2, 3, 3, 5)), "mask": MASK[None]}
    randomize(layer, inputs)
    found = layer(inputs["inputs"], mask=inputs["mask"], return_attention_scores=True)
    weights, two = weights_of(layer), HierarchicalAttention(None, 2, 4)
    run(two, {"inputs": inputs["inputs"][0], "mask": MASK})
    for variable in two.weights:
        variable.assign(weights[variable.path.split("/", 1)[1]])
    paragraphs, *expected = two(inputs["inputs"][0], mask=MASK, return_attention_scores=True)
    vector, scores = level(weights, "level_3", ops.convert_to_numpy(paragraphs).astype("float64"))
    for one, other in zip(found, (vector, *expected, scores), strict=True):
        np.testing.assert_allclose(
            ops.convert_to_numpy(one)[0], ops.convert_to_numpy(other), 1e-5, 1e-6
        )
    # Words without a GRU: attention over the embeddings.
    sentence = inputs["inputs"][0, 0, 0].astype("float64")
    u = np.tanh(sentence @ weights["word_attention/kernel"] + weights["word_attention/bias"])
    e = np.exp((u @ weights["word_attention/context"])[:, 0])
    np.testing.assert_allclose(ops.convert_to_numpy(found[1])[0, 0, 0], e / e.sum(), 1e-5)
    with pytest.raises(ValueError, match=r"inputs must be of shape \(B, P, S, W, D\)"):
        layer(inputs["inputs"][0])


def test_padding_of_words_and_sentences_changes_nothing():
    layer = make()
    x = words()
    expected = run(layer, {"inputs": x, "mask": MASK})
    noise = np.where(MASK[..., None] > 0, x, 30 * words(seed=5))
    longer = np.pad(noise, ((0, 0), (0, 2), (0, 4), (0, 0)), constant_values=7)
    before = np.pad(noise, ((0, 0), (2, 0), (4, 0), (0, 0)), constant_values=-7)
    for other, pads in ((noise, (0, 0)), (longer, (0, 1)), (before, (1, 0))):
        mask = np.pad(MASK, ((0, 0), *((2 * pads[0], 2 * pads[1]), (4 * pads[0], 4 * pads[1]))))
        found = layer(other, mask=mask, return_attention_scores=True)
        np.testing.assert_allclose(ops.convert_to_numpy(found[0]), expected, 1e-5, 1e-6)
        assert not ops.convert_to_numpy(found[1])[mask == 0].any()


@pytest.mark.parametrize(
    "make, shape",
    [(make, (2, 2, 3, 5)), (lambda: AttentiveConvPooling(3, 3, 2, seed=1), (2, 4, 5))],
)
def test_a_row_without_a_step_gives_zero_and_finite_gradients(make, shape):
    layer, mask = make(), np.ones(shape[:-1], "int32")
    mask[1] = 0
    inputs = {"inputs": words(shape=shape), "mask": mask}
    randomize(layer, inputs)
    found = run(layer, inputs)
    assert found[0].any() and not found[1].any()
    by_path, by_input = layer_gradients(layer, inputs)
    assert all(np.isfinite(g).all() for g in by_path.values())
    assert not by_input["inputs"][1].any() and by_input["inputs"][0].any()


def test_an_embedding_gives_the_mask_and_the_model_reloads(tmp_path):
    ids = keras.Input((None, None), dtype="int32")
    outputs = make()(
        keras.layers.Embedding(9, 5, mask_zero=True)(ids), return_attention_scores=True
    )
    assert [x.shape for x in outputs] == [(None, 4), (None, None, None), (None, None)]
    model = keras.Model(ids, outputs)
    array = np.array([[[3, 4, 0], [0, 0, 0]], [[5, 0, 0], [6, 7, 8]]])
    found = [ops.convert_to_numpy(x) for x in model(array)]
    np.testing.assert_allclose(found[2][0], [1, 0])
    np.testing.assert_allclose(found[1][1, 0], [1, 0, 0])
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(ops.convert_to_numpy(again(array)[0]), found[0], 1e-6)
    one = ops.convert_to_numpy(again(array[:1, :1, :1])[0])
    assert one.shape == (1, 4) and np.isfinite(one).all()


def test_the_directions_of_a_layer_with_a_seed_begin_otherwise():
    layers = [make(), make()]
    for layer in layers:
        layer.build((None, None, None, 5))
    first, again = (weights_of(layer) for layer in layers)
    for name, value in first.items():
        np.testing.assert_array_equal(value, again[name])
    forward = next(v for k, v in first.items() if "word_gru/forward" in k and "recurrent" in k)
    backward = next(v for k, v in first.items() if "word_gru/backward" in k and "recurrent" in k)
    assert not np.allclose(forward, backward)


def conv_reference(weights, inputs, mask):
    found = []
    for x, real in zip(inputs, mask > 0, strict=True):
        x = x[real].astype("float64")
        kernel, padded = weights["conv/kernel"], np.pad(x, ((1, 1), (0, 0)))
        c = np.array([np.tensordot(padded[t : t + 3], kernel, 2) for t in range(len(x))])
        c = np.maximum(c + weights["conv/bias"], 0)
        s = np.concatenate(
            [lstm(weights, "lstm/forward", x), lstm(weights, "lstm/backward", x[::-1])]
        )
        e = np.exp(np.tanh(c @ weights["attention/kernel"] + weights["attention/bias"]) @ s)
        found.append(np.concatenate([e / e.sum() @ c, s]))
    return np.array(found)


MASKS = [[[1, 1, 1, 0], [1, 1, 1, 1]], [[0, 0, 1, 1], [0, 1, 1, 1]]]


@pytest.mark.thorough
@pytest.mark.parametrize("mask", MASKS)
def test_the_recurrent_query_asks_the_convolution(mask):
    def make(**kwargs):
        return AttentiveConvPooling(3, 3, 2, **{"seed": 1, **kwargs})

    layer, inputs = make(), {"inputs": words(shape=(2, 4, 5)), "mask": np.array(mask)}
    randomize(layer, inputs)
    expected = conv_reference(weights_of(layer), **inputs)
    np.testing.assert_allclose(run(layer, inputs), expected, 1e-5, 1e-5)
    check_gradients(layer, inputs, conv_reference)
    inputs["inputs"] = np.where(inputs["mask"][..., None] > 0, inputs["inputs"], 30)
    np.testing.assert_allclose(run(layer, inputs), expected, 1e-5, 1e-5)
    pooling = make(return_state=False)
    run(pooling, inputs)
    pooling.set_weights(layer.get_weights())
    np.testing.assert_allclose(run(pooling, inputs), expected[:, :3], 1e-5, 1e-5)
    assert pooling.compute_output_shape((2, 4, 5)) == (2, 3)
    check_config(pooling, lambda **kwargs: make(return_state=False, **kwargs))
    scores = run(layer, inputs, {"return_attention_scores": True}, index=1)
    np.testing.assert_allclose(scores.sum(axis=1), 1, 1e-5)
    assert not scores[inputs["mask"] == 0].any()
    check_config(layer, make)
    check_compiled(layer, inputs, {}, expected, 1e-5)
    check_half_precision(layer, make, inputs, {}, expected, 0.05)


def test_a_constant_query_makes_it_one_pooling():
    layer, x = AttentiveConvPooling(3, 3, 2, seed=1), words(shape=(2, 4, 5))
    run(layer, {"inputs": x})
    for variable in layer.lstm.weights:
        variable.assign(ops.zeros(variable.shape))
    weights = run(layer, {"inputs": x}, {"return_attention_scores": True}, index=1)
    np.testing.assert_allclose(weights, 0.25)  # no state at all: the mean
    for variable in (v for v in layer.lstm.weights if v.name == "bias"):
        variable.assign(np.random.default_rng(4).normal(size=variable.shape))
    found = run(layer, {"inputs": x})
    state = found[:1, 3:]  # of biases alone: that of a learned context
    np.testing.assert_allclose(found[:, 3:], np.repeat(state, 2, axis=0), 1e-6)
    pooling, places = AttentionPooling(4), layer.conv(x)
    pooling(places)
    pooling.set_weights([layer.attention.kernel, layer.attention.bias, state.T])
    expected, weights = (
        ops.convert_to_numpy(t) for t in pooling(places, return_attention_scores=True)
    )
    assert weights.std(axis=1).min() > 1e-3
    np.testing.assert_allclose(found[:, :3], expected, 1e-5, 1e-6)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: HierarchicalAttention(0), "word_units=0"),
        (lambda: AttentiveConvPooling(3, 0, 2), "kernel_size=0"),
        (lambda: HierarchicalAttention()(np.zeros((1, 2, 3))), r"shape \(1, 2, 3\)"),
        (
            lambda: HierarchicalAttention(2, 2, 2)(np.zeros((1, 1, 1, 2)), mask=np.ones((1, 1, 1))),
            "float",
        ),
    ],
)
def test_wrong_arguments_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
