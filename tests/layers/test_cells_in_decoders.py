"""Cells with attention in a recurrent decoder: steps, padding, dropout and wrong arguments."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import (
    AdditiveScore,
    Attention,
    AttentionPooling,
    LocalAttention,
    LuongAttention,
    MultiHeadAttention,
)
from keras_attn.layers.recurrent import (
    AttentionCell,
    BahdanauDecoderCell,
    IntraAttentionLSTMCell,
    RecurrentDecoder,
)
from tests.support.layer_checks import compiled, layer_gradients, randomize, run
from tests.support.numpy_attention import normal
from tests.support.small_attention_cells import (
    IDS,
    INPUTS,
    MASK,
    A,
    D,
    E,
    U,
    V,
    bahdanau_cell,
    decoder,
    first_cell,
    luong_cell,
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


@pytest.mark.thorough
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
        # The states are equal: the steps differ by their dropout masks only.
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
