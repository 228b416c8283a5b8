"""Cells with attention against NumPy, a step at a time."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import (
    AdditiveScore,
    Attention,
    AttentionPooling,
    LocalAttention,
    LocationScore,
    LuongAttention,
    MultiHeadAttention,
)
from keras_attn.layers.recurrent import (
    AttentionCell,
    BahdanauDecoderCell,
    IntraAttentionLSTMCell,
    RecurrentDecoder,
)
from tests.support.layer_checks import (
    check_compiled,
    check_config,
    check_gradients,
    check_half_precision,
    check_symbolic_and_file,
    compiled,
    layer_gradients,
    randomize,
    run,
    weights_of,
)
from tests.support.quick import each_check

V, E, U, D, A = 7, 3, 4, 6, 5
IDS = np.array([[1, 5, 6, 2], [1, 3, 4, 6]], "int32")
MASK = np.array([[1, 1, 0, 1, 1], [0, 1, 0, 0, 0]], "int32")


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


INPUTS = {"target_ids": IDS, "memory": normal(2, 5, D), "memory_mask": MASK}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(logits, mask=True):
    """Over the last axis; rows with no key give 0."""
    e = np.where(mask, np.exp(logits - logits.max(axis=-1, keepdims=True)), 0.0)
    return e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)


def decoder(cell, dtype=None, **kwargs):
    return RecurrentDecoder(cell(dtype), V, E, dtype=dtype, seed=1, name="decoder", **kwargs)


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


def bahdanau_cell(dtype=None, **kwargs):
    return BahdanauDecoderCell(U, A, 2, seed=2, dtype=dtype, name="cell", **kwargs)


def luong_cell(dtype=None, layers=("lstm",), **kwargs):
    cells = [keras.layers.LSTMCell(U, dtype=dtype, name=name) for name in layers]
    cell = cells[0] if len(cells) == 1 else keras.layers.StackedRNNCells(cells, name="stack")
    return AttentionCell(
        cell,
        LuongAttention(A, seed=3, dtype=dtype, name="luong"),
        dtype=dtype,
        name="cell",
        **kwargs,
    )


def first_cell(dtype=None, layers=("gru",)):
    cells = [keras.layers.GRUCell(U, dtype=dtype, name=name) for name in layers]
    return AttentionCell(
        cells[0] if len(cells) == 1 else keras.layers.StackedRNNCells(cells, name="stack"),
        Attention("additive", A, seed=3, dtype=dtype, name="attention"),
        "attend_first",
        dtype=dtype,
        name="cell",
    )


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


@pytest.mark.parametrize("check, name", each_check(CELLS, "bahdanau"))
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


def test_without_feeding_one_pass_of_attention_gives_what_steps_give():
    layer = decoder(lambda dtype: luong_cell(dtype, input_feeding=False))
    randomize(layer, INPUTS)
    wanted = run(layer, INPUTS, index=1)
    cache, memory = layer.start_decoding(normal(2, 5, D), MASK)
    for t in range(4):
        _, weights, cache = layer(IDS[:, t : t + 1], memory, cache=cache, cache_index=t)
        np.testing.assert_allclose(ops.convert_to_numpy(weights)[:, 0], wanted[:, t], 1e-5, 1e-6)


@pytest.mark.parametrize("feeding", [True, False])
@pytest.mark.parametrize("joined", [True, False])
def test_monotonic_local_attention_moves_with_the_steps(feeding, joined):
    def cell(dtype):
        attention = LocalAttention(1, name="local")
        attention = LuongAttention(A, attention=attention) if joined else attention
        return AttentionCell(keras.layers.GRUCell(U), attention, input_feeding=feeding)

    layer = decoder(cell)
    inputs = {"target_ids": IDS, "memory": normal(2, 6, D)}
    weights = run(layer, inputs, index=1)
    near = np.abs(np.arange(6) - np.arange(4)[:, None]) <= 1
    np.testing.assert_array_equal(weights > 0, np.broadcast_to(near, weights.shape))
    cache, memory = layer.start_decoding(inputs["memory"], rows=2)
    for t in range(4):
        _, found, cache = layer(
            np.repeat(IDS[:, t : t + 1], 2, 0), memory, cache=cache, cache_index=t
        )
        np.testing.assert_allclose(ops.convert_to_numpy(found)[::2, 0], weights[:, t], 1e-5, 1e-6)


@pytest.mark.parametrize("cell", [bahdanau_cell, luong_cell])
def test_targets_of_one_source_are_decoded_side_by_side(cell):
    layer = decoder(cell)
    randomize(layer, INPUTS)
    others = np.array([[1, 2, 2, 3], [1, 6, 5, 4]])
    wanted = [run(layer, {**INPUTS, "target_ids": ids}) for ids in (IDS, others)]
    cache, memory = layer.start_decoding(normal(2, 5, D), MASK, rows=2)
    both = np.stack([IDS, others], axis=1).reshape(4, 4)
    for t in range(4):
        logits, _, cache = layer(both[:, t : t + 1], memory, cache=cache, cache_index=t)
        for row in range(2):
            np.testing.assert_allclose(
                ops.convert_to_numpy(logits)[row::2, 0], wanted[row][:, t], 1e-4, 1e-5
            )


@pytest.mark.parametrize("cell", [bahdanau_cell, luong_cell, first_cell])
def test_a_source_of_padding_alone_gives_weights_of_zero_and_finite_gradients(cell):
    layer = decoder(cell)
    inputs = {**INPUTS, "memory_mask": np.array([[0] * 5, [1] * 5])}
    randomize(layer, inputs)
    weights = run(layer, inputs, index=1)
    np.testing.assert_array_equal(weights[0], 0.0)
    np.testing.assert_allclose(weights[1].sum(-1), 1.0, 1e-5)
    by_path, by_input = layer_gradients(layer, inputs)
    assert all(np.isfinite(g).all() for g in [*by_path.values(), *by_input.values()])
    np.testing.assert_array_equal(by_input["memory"][0], 0.0)


def test_what_is_drawn_differs_from_step_to_step_and_call_to_call_and_repeats_by_seed():
    memory, ids = np.ones((2, 8, D), "float32"), np.ones((2, 5), "int32")

    def make():
        attention = LuongAttention(
            A,
            dropout=0.5,
            score=AdditiveScore(3),
            kernel_initializer=keras.initializers.Constant(0.1),
            seed=3,
        )
        return decoder(
            lambda dtype: AttentionCell(
                keras.layers.LSTMCell(U, kernel_initializer="zeros", recurrent_initializer="zeros"),
                attention,
            )
        )

    found = []
    for _ in range(2):
        layer = make()
        calls = [ops.convert_to_numpy(layer(ids, memory, training=True)[0]) for _ in range(2)]
        found.append(calls)
        assert np.abs(calls[0] - calls[1]).max() > 1e-3
        # The states are alike: only what was dropped tells the steps apart.
        assert len(np.unique(calls[0][0, :, 0].round(5))) > 2
    np.testing.assert_allclose(found[0], found[1], 1e-6)
    layer = make()
    layer(ids, memory)
    others = [v.value for v in layer.non_trainable_variables]
    weights = [v.value for v in layer.trainable_variables]

    def stateless(weights, others):
        return layer.stateless_call(weights, others, ids, memory, training=True)

    stateless = compiled(stateless)
    for call in found[0]:
        (logits, _), others = stateless(weights, others)
        np.testing.assert_allclose(ops.convert_to_numpy(logits), call, 1e-4, 1e-5)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: AttentionCell(keras.layers.GRUCell(2), None, order="middle"), "order='middle'"),
        (lambda: AttentionCell(keras.layers.GRUCell(2, dropout=0.1), None), "with dropout are not"),
        (lambda: BahdanauDecoderCell(0), "units=0"),
        (lambda: BahdanauDecoderCell(2, readout="mean"), "readout='mean'"),
        (lambda: BahdanauDecoderCell(2, readout_state="next"), "readout_state='next'"),
        (
            lambda: AttentionCell(
                keras.layers.GRUCell(2), Attention(), "attend_first", combine="relu"
            ),
            "combine must be a layer or None. Received: combine='relu'",
        ),
        (lambda: luong_cell(query_inputs=True), 'order="attend_first".*query_inputs=True'),
        (lambda: luong_cell(combine=keras.layers.Dense(2)), 'order="attend_first".*combine='),
        (lambda: IntraAttentionLSTMCell(2, 0), "max_length=0"),
    ],
)
def test_arguments_out_of_range_are_errors_that_name_them(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_float_mask_of_the_memory_is_refused():
    with pytest.raises(ValueError, match="memory_mask > 0.5"):
        decoder(luong_cell)(IDS, normal(2, 5, D), memory_mask=MASK.astype("float32"))


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


@pytest.mark.parametrize(
    "make",
    [
        lambda: MultiHeadAttention(2, 4, fused=None, seed=0),
        lambda: keras.layers.MultiHeadAttention(2, 4, seed=0),
    ],
    ids=["ours", "keras"],
)
@pytest.mark.parametrize("order", ["attend_last", "attend_first"])
def test_weights_of_several_heads_are_averaged(make, order):
    layer = RecurrentDecoder(AttentionCell(keras.layers.LSTMCell(U), make(), order), V, E, seed=1)
    logits, weights = layer(**INPUTS)
    assert logits.shape == (*IDS.shape, V) and weights.shape == (*IDS.shape, 5)
    weights = ops.convert_to_numpy(weights)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, 1e-5)
    assert not weights[np.broadcast_to(MASK[:, None] == 0, weights.shape)].any()


@pytest.mark.parametrize("attention", [AttentionPooling(), keras.layers.Attention()])
def test_layers_that_take_no_memory_are_refused(attention):
    with pytest.raises(ValueError, match="attention must be a layer that is called with query"):
        AttentionCell(keras.layers.LSTMCell(U), attention)
