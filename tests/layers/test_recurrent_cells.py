"""Cells with attention against NumPy, a step at a time."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import Attention, LocationScore
from keras_attn.layers.recurrent import AttentionCell, BahdanauDecoderCell, IntraAttentionLSTMCell
from tests.support.layer_checks import (
    check_compiled,
    check_config,
    check_gradients,
    check_half_precision,
    check_symbolic_and_file,
    randomize,
    run,
    weights_of,
)
from tests.support.numpy_attention import normal
from tests.support.quick import each_check
from tests.support.small_attention_cells import (
    IDS,
    INPUTS,
    A,
    D,
    E,
    U,
    bahdanau_cell,
    decoder,
    first_cell,
    luong_cell,
)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(logits, mask=True):
    """Over the last axis; rows with no key give 0."""
    e = np.where(mask, np.exp(logits - logits.max(axis=-1, keepdims=True)), 0.0)
    return e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)


def run_steps(step, state, words):
    found = []
    for t in range(words.shape[1]):
        state, *outputs = step(state, words[:, t])
        found.append(outputs)
    return [np.stack(one, axis=1) for one in zip(*found, strict=True)]


def bahdanau(w, target_ids, memory, memory_mask, first=None, alignments=False, current=False):
    """Bahdanau et al., appendix A, with the weights of each gate and of each input apart."""
    kernels = np.split(w["cell/input_kernel"], [U, 2 * U, 3 * U], axis=1)
    biases = np.split(w["cell/bias"], [U, 2 * U, 3 * U])
    contexts = np.split(w["cell/context_kernel"], 3, axis=1)
    update_kernel, reset_kernel = np.split(w["cell/gate_kernel"], 2, axis=1)
    state_read, context_read = np.split(w["cell/readout_kernel"], [U])

    def step(s, x):
        hidden = np.tanh(
            (s @ w["cell/score/query_kernel"])[:, None] + memory @ w["cell/score/key_kernel"]
        )
        a = softmax((hidden @ w["cell/score/vector"])[..., 0], memory_mask > 0)
        c = np.einsum("bs,bsd->bd", a, memory)
        z = sigmoid(x @ kernels[0] + s @ update_kernel + c @ contexts[0] + biases[0])
        r = sigmoid(x @ kernels[1] + s @ reset_kernel + c @ contexts[1] + biases[1])
        new = np.tanh(
            x @ kernels[2] + (r * s) @ w["cell/candidate_kernel"] + c @ contexts[2] + biases[2]
        )
        new = (1 - z) * s + z * new
        state = new if current else s
        read = state @ state_read + x @ kernels[3] + c @ context_read + biases[3]
        t = np.maximum(read[:, ::2], read[:, 1::2])
        return new, t @ w["output_kernel"], a

    s = np.zeros((len(memory), U)) if first is None else np.tanh(first @ w["cell/initial_kernel"])
    logits, weights = run_steps(step, s, w["embedding"][target_ids])
    return weights if alignments else logits


def lstm(w, name, x, state):
    """Of Keras: input, forget, candidate and output gate."""
    h, c = state
    i, f, g, o = np.split(
        x @ w[f"{name}/kernel"] + h @ w[f"{name}/recurrent_kernel"] + w[f"{name}/bias"], 4, axis=1
    )
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(c)
    return h, c


def luong_step(w, h, memory, mask):
    a = softmax(
        np.einsum("bq,qd,bsd->bs", h, w["cell/luong/attention/score/kernel"], memory), mask > 0
    )
    context = np.einsum("bs,bsd->bd", a, memory)
    return np.tanh(np.concatenate([context, h], axis=1) @ w["cell/luong/kernel"]), a


def luong(w, target_ids, memory, memory_mask, layers=("lstm",), feeding=True, alignments=False):
    """Luong et al., section 3.3; several layers one above the other."""

    def step(state, x):
        states, fed = state
        x, new = np.concatenate([x, fed], axis=1) if feeding else x, []
        for name, own in zip(layers, states, strict=True):
            x, c = lstm(w, f"cell/{name}", x, own)
            new.append((x, c))
        fed, a = luong_step(w, x, memory, memory_mask)
        return (new, fed), fed @ w["output_kernel"], a

    zeros = np.zeros((len(memory), U))
    state = [(zeros, zeros)] * len(layers), np.zeros((len(memory), A))
    logits, weights = run_steps(step, state, w["embedding"][target_ids])
    return weights if alignments else logits


def gru(w, name, x, h):
    """Of Keras, with its two biases."""
    given, own = w[f"{name}/bias"]
    xz, xr, xh = np.split(x @ w[f"{name}/kernel"] + given, 3, axis=1)
    hz, hr, hh = np.split(h @ w[f"{name}/recurrent_kernel"] + own, 3, axis=1)
    z = sigmoid(xz + hz)
    return z * h + (1 - z) * np.tanh(xh + sigmoid(xr + hr) * hh)


def attend_first(w, target_ids, memory, memory_mask, layers=("gru",), first=None):
    """Keras's GRUs; the query of the additive score is the previous state of the highest one."""

    def step(states, x):
        hidden = np.tanh(
            (states[-1] @ w["cell/attention/score/query_kernel"])[:, None]
            + memory @ w["cell/attention/score/key_kernel"]
        )
        a = softmax((hidden @ w["cell/attention/score/vector"])[..., 0], memory_mask > 0)
        x, new = np.concatenate([x, np.einsum("bs,bsd->bd", a, memory)], axis=1), []
        for name, h in zip(layers, states, strict=True):
            x = gru(w, f"cell/{name}", x, h)
            new.append(x)
        return new, x @ w["output_kernel"]

    first = [np.zeros((len(memory), U))] * len(layers) if first is None else first
    return run_steps(step, first, w["embedding"][target_ids])[0]


def tutorial(w, target_ids, memory, memory_mask):
    """`softmax(W_a [x; s] + b_a)` over positions, and `ReLU(W_c [x; a] + b_c)` into the GRU."""

    def step(s, x):
        length = memory.shape[1]
        logits = np.concatenate([x, s], axis=1) @ w["cell/attention/score/kernel"]
        logits = (logits + w["cell/attention/score/bias"])[:, :length]
        context = np.einsum("bs,bsd->bd", softmax(logits, memory_mask > 0), memory)
        joined = np.concatenate([x, context], axis=1) @ w["cell/combine/kernel"]
        s = gru(w, "cell/gru", np.maximum(joined + w["cell/combine/bias"], 0), s)
        return s, s @ w["output_kernel"]

    return run_steps(step, np.zeros((len(memory), U)), w["embedding"][target_ids])[0]


def tutorial_cell(dtype=None):
    return AttentionCell(
        keras.layers.GRUCell(U, dtype=dtype, name="gru"),
        Attention(
            LocationScore(8, use_bias=True, dtype=dtype, name="score"),
            dtype=dtype,
            name="attention",
        ),
        "attend_first",
        query_inputs=True,
        combine=keras.layers.Dense(A, "relu", dtype=dtype, name="combine"),
        dtype=dtype,
        name="cell",
    )


CELLS = {
    "bahdanau": (bahdanau_cell, bahdanau),
    "bahdanau_current": (
        lambda dtype: bahdanau_cell(dtype, readout_state="current"),
        lambda w, **inputs: bahdanau(w, **inputs, current=True),
    ),
    "tutorial": (tutorial_cell, tutorial),
    "luong": (luong_cell, luong),
    "first": (first_cell, attend_first),
    "unfed": (
        lambda dtype: luong_cell(dtype, input_feeding=False),
        lambda w, **inputs: luong(w, **inputs, feeding=False),
    ),
}


@pytest.mark.parametrize("check, name", each_check(CELLS))
def test_every_check_of_a_layer_with_padding_anywhere(check, name):
    cell, reference = CELLS[name]
    check(lambda **k: decoder(cell, **k), INPUTS, reference)


@pytest.mark.parametrize("cell, reference", [(bahdanau_cell, bahdanau), (luong_cell, luong)])
def test_alignments_are_the_weights_of_attention(cell, reference):
    layer = decoder(cell)
    randomize(layer, INPUTS)
    np.testing.assert_allclose(
        run(layer, INPUTS, index=1),
        reference(weights_of(layer), **INPUTS, alignments=True),
        1e-5,
        1e-6,
    )


def test_the_first_state_of_bahdanau_comes_from_the_encoder():
    layer, first = decoder(bahdanau_cell), normal(2, U, seed=4)
    randomize(layer, INPUTS)
    np.testing.assert_allclose(
        run(layer, {**INPUTS, "initial_state": first}),
        bahdanau(weights_of(layer), **INPUTS, first=first),
        1e-5,
        1e-5,
    )
    with pytest.raises(ValueError, match="units=4"):
        layer(IDS, normal(2, 5, D), initial_state=normal(2, U + 1))


def test_bahdanaus_update_gate_is_one_minus_that_of_keras():
    cell = BahdanauDecoderCell(U)
    cell.build((None, E), (None, None, D))
    gru = keras.layers.GRUCell(U, reset_after=False)
    gru.build((None, E))
    for kernel in (cell.gate_kernel, cell.candidate_kernel, cell.bias):
        kernel.assign(normal(*kernel.shape, seed=5))
    cell.context_kernel.assign(np.zeros((D, 3 * U)))
    sign = np.repeat([-1, 1, 1], U)
    gates, own = (
        ops.convert_to_numpy(kernel) for kernel in (cell.gate_kernel, cell.candidate_kernel)
    )
    gru.kernel.assign(sign * ops.convert_to_numpy(cell.input_kernel)[:, : 3 * U])
    gru.recurrent_kernel.assign(sign * np.concatenate([gates, own], axis=1))
    gru.bias.assign(sign * ops.convert_to_numpy(cell.bias)[: 3 * U])
    x, state = ops.convert_to_tensor(normal(2, E)), ops.convert_to_tensor(normal(2, U, seed=1))
    memory = cell.prepare_memory(ops.convert_to_tensor(normal(2, 5, D)))
    _, (found,) = cell(cell.prepare_inputs(x), [state], memory)
    np.testing.assert_allclose(
        ops.convert_to_numpy(found), ops.convert_to_numpy(gru(x, state)[0]), 1e-5, 1e-6
    )


def test_stacked_cells_feed_the_lowest_and_ask_with_the_highest():
    layers = "low", "high"
    layer = decoder(lambda dtype: luong_cell(dtype, layers))
    randomize(layer, INPUTS)
    weights = {name.replace("cell/stack/", "cell/"): w for name, w in weights_of(layer).items()}
    np.testing.assert_allclose(
        run(layer, INPUTS), luong(weights, **INPUTS, layers=layers), 1e-5, 1e-5
    )


@pytest.mark.parametrize(
    "first", [None, [normal(2, U, seed=s) for s in (4, 5)]], ids=["nested", "flat"]
)
def test_stacked_cells_that_attend_first_ask_with_the_highest(first):
    layers = "low", "high"
    layer = decoder(lambda dtype: first_cell(dtype, layers))
    randomize(layer, INPUTS)
    weights = {name.replace("cell/stack/", "cell/"): w for name, w in weights_of(layer).items()}
    found = layer(**INPUTS, initial_state=first)[0]
    np.testing.assert_allclose(
        ops.convert_to_numpy(found),
        attend_first(weights, **INPUTS, layers=layers, first=first),
        1e-5,
        1e-5,
    )


def lstmn(w, sequence, mask=None, window=None):
    """Cheng et al., eq. 4-9, over growing lists of a row's real steps."""
    outputs = np.zeros((*sequence.shape[:2], U))
    query, key = w["cell/score/query_kernel"], w["cell/score/key_kernel"]
    depth = sequence.shape[2]
    kernel = np.concatenate([w["cell/kernel"], w["cell/recurrent_kernel"]])
    for b, row in enumerate(sequence):
        hidden, carries, summary = [], [], np.zeros(U)
        for t, x in enumerate(row):
            if mask is not None and not mask[b, t]:
                continue
            memory = np.zeros(U)
            first = 0 if window is None else max(0, len(hidden) - window)
            scores = np.array(
                [
                    np.tanh(h @ key + x @ query[:depth] + summary @ query[depth:])
                    @ w["cell/score/vector"][:, 0]
                    for h in hidden[first:]
                ]
            )
            summary = np.zeros(U)
            if len(scores):
                a = softmax(scores)
                summary = a @ np.array(hidden[first:])
                memory = a @ np.array(carries[first:])
            i, f, o, g = np.split(np.concatenate([x, summary]) @ kernel + w["cell/bias"], 4)
            carry = sigmoid(f) * memory + sigmoid(i) * np.tanh(g)
            hidden.append(sigmoid(o) * np.tanh(carry))
            carries.append(carry)
            outputs[b, t] = hidden[-1]
    return outputs


def reader(length=5, dtype=None):
    return keras.layers.RNN(
        IntraAttentionLSTMCell(U, length, 3, seed=1, dtype=dtype, name="cell"),
        return_sequences=True,
        dtype=dtype,
        name="reader",
    )


def test_lstmn_is_that_of_the_paper_in_every_check():
    layer, inputs = reader(), {"sequence": normal(2, 5, E)}
    layer(inputs["sequence"])
    randomize(layer, inputs)
    expected = lstmn(weights_of(layer), **inputs)
    np.testing.assert_allclose(run(layer, inputs), expected, 1e-5, 1e-5)
    check_gradients(layer, inputs, lstmn)
    check_config(layer.cell, lambda: reader().cell)
    check_symbolic_and_file(layer, inputs, {}, expected, 1e-5)
    check_half_precision(layer, reader, inputs, {}, expected, 0.05)
    check_compiled(layer, inputs, {}, expected, 1e-5)


def test_lstmn_leaves_nothing_of_padding_on_its_tape_and_forgets_the_oldest():
    x, mask = normal(2, 5, E), np.array([[0, 0, 1, 1, 1], [1, 0, 1, 1, 0]])
    layer = reader(2)
    randomize(layer, {"sequence": x})
    np.testing.assert_allclose(
        run(layer, {"sequence": x}), lstmn(weights_of(layer), x, window=2), 1e-5, 1e-5
    )
    found = ops.convert_to_numpy(layer(x, mask=ops.convert_to_tensor(mask > 0)))
    expected = lstmn(weights_of(layer), x, mask, window=2)
    np.testing.assert_allclose(found[mask > 0], expected[mask > 0], 1e-5, 1e-5)
