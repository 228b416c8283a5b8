"""First weights with which every head looks at one neighbour."""

import numpy as np
import pytest
from keras import ops

from keras_attn.models import BertEncoder
from keras_attn.models.bert.neighbours import neighbour_kernels, neighbour_positions


@pytest.mark.parametrize("shift", [-2, -1, 1, 2])
def test_the_logit_of_the_neighbour_is_the_largest(shift):
    positions = neighbour_positions(128, 64, stddev=np.sqrt(0.5))
    query, key = neighbour_kernels(64, 32, shift, np.random.default_rng(0))
    logits = (positions @ query) @ (positions @ key).T / np.sqrt(32)
    rows = np.arange(2, 126)
    np.testing.assert_array_equal(np.argmax(logits, axis=-1)[rows], rows + shift)
    assert np.all(logits[rows, rows + shift] > 1.5 * np.sqrt(32) / 2 * 0.99)


def test_positions_have_the_size_asked_for():
    positions = neighbour_positions(100, 32, stddev=0.05)
    np.testing.assert_allclose(np.sqrt(np.mean(positions**2)), 0.05, rtol=1e-3)


def test_heads_of_a_new_encoder_look_at_their_neighbours():
    encoder = BertEncoder(500, 1, 128, 2, dropout=0.0, initial_attention="neighbours",
                          initializer_range=0.05, seed=3)
    encoder.build()
    ids = np.random.default_rng(0).integers(0, 500, (4, 40))
    layer = encoder.encoder_layers[0]
    x = encoder.norm(encoder._embed(ids, None, None))
    _, scores = layer.attention(x, x, return_attention_scores=True)
    scores = ops.convert_to_numpy(scores).mean(axis=0)  # (H, T, T)
    rows = np.arange(3, 37)
    for head, shift in enumerate([-1, 1]):
        assert np.all(np.argmax(scores[head], axis=-1)[rows] == rows + shift)
        assert scores[head][rows, rows + shift].mean() > 0.3


def test_an_unknown_initial_attention_is_refused():
    with pytest.raises(ValueError, match="initial_attention"):
        BertEncoder(10, 1, 8, 2, initial_attention="no")
