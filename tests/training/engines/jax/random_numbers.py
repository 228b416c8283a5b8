"""Dropout of the JAX engine. Run by tests/backends, on JAX."""

import jax
import keras
import numpy as np
import pytest

from keras_attn.models import BertEncoder, BertPretrainer
from keras_attn.models.text_embedder import TextEmbedder
from tests.support.engines import step_of
from tests.support.quick import quick
from tests.support.regression import RATE, ROWS, BertRows, PairsOfTexts
from tests.support.small_bert import encoder


@pytest.mark.parametrize("accumulate", [1, 2])
def test_masks_do_not_depend_on_the_number_of_devices(accumulate):
    weights = []
    for replicas in (1, 2):
        step, feed = step_of(
            lambda: BertPretrainer(encoder(dropout=0.5)),
            BertRows(),
            replicas,
            accumulate=accumulate,
        )
        step.run(feed, 0, np.full(3, RATE))
        weights.append([keras.ops.convert_to_numpy(v) for v in step.model.trainable_variables])
    for one, two in zip(*weights, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)


@pytest.mark.parametrize("dtype", quick(["float32", "mixed_bfloat16"]))
def test_both_passes_of_an_in_batch_loss_have_the_same_dropout(dtype):
    """With other masks, the gathered rows would differ from those that are differentiated."""
    found = []

    class Recorded(TextEmbedder):
        def loss_errors(self, outputs, batch):
            if "gathered_embedding" in batch:
                rows = jax.lax.dynamic_slice_in_dim(
                    batch["gathered_embedding"], batch["gathered_start"], 2
                )
                jax.debug.callback(found.append, abs(rows - outputs["embedding"]).max())
            return super().loss_errors(outputs, batch)

    backbone = BertEncoder(12, 1, 8, 2, dropout=0.5, use_pooler=False, seed=0, dtype=dtype)
    step, feed = step_of(
        lambda: Recorded(backbone, seed=1, dtype=dtype), PairsOfTexts(), accumulate=ROWS // 2
    )
    assert np.isfinite(step.run(feed, 0, [0.1])[0]["loss"])
    jax.effects_barrier()
    assert len(found) == ROWS // 2
    assert max(found) < (1e-2 if dtype != "float32" else 1e-5)
