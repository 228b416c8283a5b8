"""Dropout of the JAX engine. Run by tests/backends, on JAX."""

import keras
import numpy as np
import pytest

from keras_attn.models import BertPretrainer
from tests.support.engines import step_of
from tests.support.regression import RATE, BertRows
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
