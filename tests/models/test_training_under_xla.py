"""The eight models of attention train under XLA on TensorFlow as they do without."""

import keras
import numpy as np
import pytest

from tests.support.small_models import MODELS, made
from tests.support.small_seq2seq import seq2seq_batch, seq2seq_model

SMALL = ["han", "attention", "abcnn3", "afm", "pointer_once", "generator"]


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="others have no such choice")
@pytest.mark.parametrize("name", [*SMALL, "bahdanau", "luong"])
def test_losses_under_xla_are_those_without(name):
    batch = {k: x[:8] for k, x in (made(name)[1] if name in MODELS else seq2seq_batch(8)).items()}
    losses = []
    for jit in (False, True):
        model = made(name)[0] if name in MODELS else seq2seq_model(name)
        # A small rate: steps that go far make a difference in the last digit a large one.
        model.compile(optimizer=keras.optimizers.Adam(1e-3), jit_compile=jit)
        history = model.fit(x=batch, batch_size=4, epochs=3, verbose=0, shuffle=False).history
        losses.append(history["loss"])
    np.testing.assert_allclose(losses[1], losses[0], 1e-4)
    assert losses[0][-1] < losses[0][0]
