"""First weights with which every head looks at one neighbour."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import MultiHeadAttention
from keras_attn.layers.neighbours import STRENGTH, NeighbourPositions, neighbour_kernels
from keras_attn.models import BertEncoder, BertPretrainer
from tests.support.layer_checks import JIT


@pytest.mark.parametrize("shift", [-2, -1, 1, 2])
def test_the_logit_of_the_neighbour_is_the_largest(shift):
    positions = ops.convert_to_numpy(NeighbourPositions(np.sqrt(0.5))((128, 64)))
    query, key = neighbour_kernels(64, 32, [shift])
    logits = (positions @ query) @ (positions @ key).T / np.sqrt(32)
    rows = np.arange(2, 126)
    np.testing.assert_array_equal(np.argmax(logits, axis=-1)[rows], rows + shift)
    assert np.all(logits[rows, rows + shift] > STRENGTH * np.sqrt(32) / 2 * 0.99)


def test_positions_have_the_size_asked_for():
    positions = ops.convert_to_numpy(NeighbourPositions(0.05)((100, 32)))
    np.testing.assert_allclose(np.sqrt(np.mean(positions**2)), 0.05, rtol=1e-3)


@pytest.mark.runs
def test_an_unbuilt_model_learns_by_plain_fit_and_reloads(tmp_path):
    model = BertPretrainer(BertEncoder(50, 1, 16, 2, initial_attention="neighbours", seed=1))
    random = np.random.default_rng(0)
    batch = {
        "token_ids": random.integers(0, 50, (8, 10)).astype("int32"),
        "mask_positions": np.ones((8, 2), "int32"),
        "mask_ids": random.integers(0, 50, (8, 2)).astype("int32"),
        "mask_weights": np.ones((8, 2), "float32"),
        "next_sentence_label": np.zeros(8, "int32"),
    }
    model.compile(optimizer="adam", jit_compile=JIT)
    losses = model.fit(batch, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        ops.convert_to_numpy(again(batch)["mlm_logits"]),
        ops.convert_to_numpy(model(batch)["mlm_logits"]),
        atol=1e-5,
    )


def test_shifts_of_another_number_than_heads_are_refused():
    with pytest.raises(ValueError, match="initial_shifts"):
        MultiHeadAttention(2, 8, initial_shifts=[1])


def test_heads_of_a_new_encoder_look_at_their_neighbours():
    encoder = BertEncoder(
        500, 1, 128, 2, dropout=0.0, initial_attention="neighbours", initializer_range=0.05, seed=3
    )
    encoder.build()
    ids = np.random.default_rng(0).integers(0, 500, (4, 40))
    layer = encoder.encoder_layers[0]
    x = encoder.embed({"token_ids": ids})
    _, scores = layer.attention(x, x, return_attention_scores=True)
    scores = ops.convert_to_numpy(scores).mean(axis=0)  # (H, T, T)
    rows = np.arange(3, 37)
    for head, shift in enumerate([-1, 1]):
        assert np.all(np.argmax(scores[head], axis=-1)[rows] == rows + shift)
        assert scores[head][rows, rows + shift].mean() > 0.3


def test_an_unknown_initial_attention_is_refused():
    with pytest.raises(ValueError, match="initial_attention"):
        BertEncoder(10, 1, 8, 2, initial_attention="no")
