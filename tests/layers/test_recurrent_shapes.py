"""Sequences to vectors, vectors to sequences, sequences to sequences."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import AttentionPooling
from keras_attn.layers.recurrent import SequenceToSequence, SequenceToVector, VectorToSequence
from tests.support.layer_checks import layer_gradients, randomize, run, weights_of
from tests.support.quick import each_check

MASK = np.array([[0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]])


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def rnn_step(w, name, x, h):
    """`SimpleRNNCell`."""
    return np.tanh(x @ w[f"{name}/kernel"] + h @ w[f"{name}/recurrent_kernel"] + w[f"{name}/bias"])


def simple(units, name="cell", dtype=None):
    return keras.layers.SimpleRNNCell(units, bias_initializer="uniform", name=name, dtype=dtype)


def summed_up(reduce, weights, inputs, mask=None):
    rows = []
    for x, real in zip(inputs, MASK if mask is None else mask, strict=True):
        steps = x[real > 0]
        if not len(steps):
            rows.append(np.zeros(x.shape[1]))
        elif reduce == "attention":
            e = np.exp(
                np.tanh(steps @ weights["pooling/kernel"] + weights["pooling/bias"])
                @ weights["pooling/context"]
            )
            rows.append((e * steps).sum(0) / e.sum())
        else:
            rows.append({"last": steps[-1], "mean": steps.mean(0), "max": steps.max(0)}[reduce])
    return np.array(rows)


@pytest.mark.parametrize(
    "check, reduce", each_check(["last", "mean", "max", "attention"], "attention")
)
def test_every_check_of_a_summary_with_padding_on_either_side(check, reduce):
    inputs = {"inputs": normal(3, 4, 5), "mask": MASK}
    check(
        lambda **k: SequenceToVector(reduce, seed=1, **k),
        inputs,
        lambda weights, **named: summed_up(reduce, weights, **named),
    )


@pytest.mark.parametrize("reduce", ["last", "mean", "max", "attention"])
def test_lengths_padding_and_rows_with_no_step(reduce):
    layer, x, lengths = SequenceToVector(reduce, seed=1), normal(3, 4, 5), np.array([2, 4, 0])
    randomize(layer, {"inputs": x})
    mask = np.arange(4) < lengths[:, None]
    wanted = summed_up(reduce, weights_of(layer), x, mask)
    np.testing.assert_allclose(run(layer, {"inputs": x, "lengths": lengths}), wanted, 1e-5, 1e-6)
    other = np.where(mask[..., None], x, 99.0).astype("float32")
    np.testing.assert_allclose(
        run(layer, {"inputs": other, "lengths": lengths}), wanted, 1e-5, 1e-6
    )
    unmasked = summed_up(reduce, weights_of(layer), x, np.ones((3, 4)))
    np.testing.assert_allclose(run(layer, {"inputs": x}), unmasked, 1e-5, 1e-6)
    by_path, by_input = layer_gradients(layer, {"inputs": x, "lengths": lengths})
    assert all(np.isfinite(g).all() for g in by_path.values())
    np.testing.assert_array_equal(by_input["inputs"][~mask], 0.0)
    assert layer.compute_mask(x, None) is None


def test_a_summary_by_attention_is_attention_pooling():
    layer, x = SequenceToVector("attention", units=3, seed=1), normal(2, 4, 5)
    pooling = AttentionPooling(3, seed=1)
    np.testing.assert_allclose(run(layer, {"inputs": x}), run(pooling, {"inputs": x}), 1e-6)


@pytest.mark.parametrize("reduce", ["last", "attention"])
def test_masks_of_keras_work_without_an_argument(reduce):
    ids = np.array([[3, 4, 0, 0], [0, 0, 0, 0]])
    tokens = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(9, 5, mask_zero=True)(tokens)
    x = keras.layers.Bidirectional(keras.layers.LSTM(3, return_sequences=True))(x)
    layer = SequenceToVector(reduce, seed=1)
    model = keras.Model(tokens, layer(x))
    found = ops.convert_to_numpy(model(ids))
    np.testing.assert_array_equal(found[1], 0.0)
    longer = ops.convert_to_numpy(model(np.pad(ids, ((0, 0), (0, 3)))))
    np.testing.assert_allclose(found, longer, 1e-5, 1e-6)
    lengths = keras.Input((), dtype="int32")
    both = keras.Model([tokens, lengths], layer(x, lengths=lengths))
    found_by_both = ops.convert_to_numpy(both([ids, np.array([4, 4])]))
    np.testing.assert_allclose(found_by_both, found, 1e-5, 1e-6)


@pytest.mark.parametrize("feed", ["first", "every"])
def test_every_check_of_a_sequence_from_a_vector(feed):
    def reference(weights, inputs):
        h, outputs = np.zeros((len(inputs), 4)), []
        for t in range(3):
            x = inputs if feed == "every" or t == 0 else np.zeros_like(inputs)
            h = rnn_step(weights, "recurrent/cell", x, h)
            outputs.append(h)
        return np.stack(outputs, axis=1)

    layer = VectorToSequence(simple(4), 3, feed)
    x = normal(2, 5)
    randomize(layer, {"inputs": x})
    np.testing.assert_allclose(
        run(layer, {"inputs": x}), reference(weights_of(layer), x), 1e-5, 1e-6
    )
    again = VectorToSequence.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    model = keras.Sequential([keras.Input((5,)), again])
    assert model.output_shape == (None, 3, 4)


def test_feeding_every_step_is_an_lstm_over_a_repeated_vector():
    layer, x = VectorToSequence(keras.layers.LSTMCell(4), 3, "every"), normal(2, 5)
    found = run(layer, {"inputs": x})
    lstm = keras.layers.LSTM(4, return_sequences=True)
    lstm.build((None, 3, 5))
    lstm.set_weights(layer.get_weights())
    wanted = ops.convert_to_numpy(lstm(keras.layers.RepeatVector(3)(x)))
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)
    states = [normal(2, 4, seed=1), normal(2, 4, seed=2)]
    np.testing.assert_allclose(
        ops.convert_to_numpy(layer(x, initial_state=states)),
        ops.convert_to_numpy(lstm(keras.layers.RepeatVector(3)(x), initial_state=states)),
        1e-5,
        1e-6,
    )


SOURCE_MASK = np.array([[1, 1, 0, 0], [1, 1, 1, 1]])


def encoded_and_decoded(context, weights, source, target, source_mask=SOURCE_MASK):
    states, summaries = [], []
    for x, real in zip(source, source_mask, strict=True):
        h = np.zeros(4)
        for one in x[real > 0]:
            h = rnn_step(weights, "encoder/encode", one, h)
        states.append(h)
        summaries.append(h)
    c = np.array(summaries)
    h = np.array(states) if context == "states" else np.zeros((len(c), 4))
    if context in ("summary", "both"):
        h = np.tanh(c @ weights["kernel"])
    outputs = []
    for t in range(target.shape[1]):
        x = target[:, t]
        if context in ("input", "both"):
            x = np.concatenate([x, c], axis=1)
        h = rnn_step(weights, "decoder/decode", x, h)
        outputs.append(h)
    return np.stack(outputs, axis=1)


@pytest.mark.parametrize(
    "check, context", each_check(["states", "summary", "input", "both"], "both")
)
def test_every_check_of_a_sequence_from_a_sequence(check, context):
    inputs = {
        "source": normal(2, 4, 3),
        "target": normal(2, 3, 5, seed=1),
        "source_mask": SOURCE_MASK,
    }
    check(
        lambda dtype=None: SequenceToSequence(
            simple(4, "encode", dtype), simple(4, "decode", dtype), context, dtype=dtype, seed=1
        ),
        inputs,
        lambda weights, **named: encoded_and_decoded(context, weights, **named),
    )


def test_states_of_an_lstm_are_those_of_a_loop_by_hand():
    encoder, decoder = keras.layers.LSTMCell(4), keras.layers.LSTMCell(4)
    layer = SequenceToSequence(encoder, decoder)
    source, target = normal(2, 3, 5), normal(2, 2, 6)
    found = run(layer, {"source": source, "target": target})
    states = encoder.get_initial_state(2)
    for t in range(3):
        _, states = encoder(source[:, t], states)
    for t in range(2):
        output, states = decoder(target[:, t], states)
        np.testing.assert_allclose(found[:, t], ops.convert_to_numpy(output), 1e-5, 1e-6)


@pytest.mark.parametrize("context", ["states", "both"])
def test_the_loss_of_a_masked_target_counts_its_steps_alone(context):
    ids = [np.array([[5, 3, 8], [4, 0, 0]]), np.array([[0, 2, 1, 7, 0], [4, 1, 0, 0, 0]])]
    tokens = [keras.Input((None,), dtype="int32") for _ in ids]
    source, target = (keras.layers.Embedding(9, 5, mask_zero=True)(x) for x in tokens)
    layer = SequenceToSequence(simple(4), simple(4), context)
    model = keras.Model(tokens, layer(source, target))
    model.compile(loss="mse")
    label = normal(2, 5, 4)
    errors = np.square(model.predict(ids, verbose=0) - label).mean(-1)
    found = model.evaluate(ids, label, verbose=0)
    np.testing.assert_allclose(found, errors[ids[1] > 0].mean(), 1e-5)


def test_masks_of_sequences_are_integer_or_boolean():
    layer, inputs = SequenceToSequence(simple(4), simple(4)), (normal(2, 4, 3), normal(2, 3, 5))
    real = np.array([[1, 1, 0], [1, 0, 0]])
    found = run(layer, dict(zip(("source", "target"), inputs, strict=True)), {"target_mask": real})
    np.testing.assert_array_equal(found[1], found[1, :1].repeat(3, 0))
    for name, mask in (("source_mask", SOURCE_MASK), ("target_mask", real)):
        with pytest.raises(ValueError, match=f"{name} must be boolean or integer"):
            layer(*inputs, **{name: mask.astype("float32")})


@pytest.mark.parametrize(
    "layer", [*map(SequenceToVector, ("last", "mean", "max", "attention")), AttentionPooling(3)]
)
def test_lengths_of_anything_but_rows_are_refused(layer):
    with pytest.raises(ValueError, match=r"one number per row, .* shape \(2, 1\)"):
        layer(normal(2, 3, 4), lengths=np.array([[1], [2]]))


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: SequenceToVector("sum"), "reduce='sum'"),
        (lambda: SequenceToVector("mean", units=3), 'with reduce="attention". Received: units=3'),
        (lambda: VectorToSequence(simple(2), 0), "length=0"),
        (lambda: VectorToSequence(simple(2), 1, "last"), "feed='last'"),
        (lambda: SequenceToSequence(simple(2), simple(2), "all"), "context='all'"),
        (lambda: SequenceToSequence(simple(2), simple(3)), "encoder=2, decoder=3"),
    ],
)
def test_arguments_out_of_range_are_errors_that_name_them(make, message):
    with pytest.raises(ValueError, match=message):
        make()
