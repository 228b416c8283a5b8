"""The largest logits against NumPy's sorting."""

import numpy as np
import pytest
from keras import ops

from keras_attn.generation.top_k import top_k_logits


@pytest.mark.parametrize("number", [1, 3, 8])
@pytest.mark.parametrize("size", [8, 1000, 4096, 5003])
def test_they_are_those_of_a_sort(size, number):
    random = np.random.default_rng(size)
    logits = random.permuted(np.tile(np.arange(size), (4, 1)), axis=1).astype("float32")
    logits[1, :number] = size + np.arange(number)  # all in the first block
    logits[2, -number:] = size + np.arange(number)  # behind the last
    logits[3] = -1e30
    logits[3, size // 2] = 0.0
    values, tokens = (
        ops.convert_to_numpy(x) for x in top_k_logits(ops.convert_to_tensor(logits), number)
    )
    order = np.argsort(-logits, axis=1)[:, :number]
    np.testing.assert_array_equal(values, np.take_along_axis(logits, order, axis=1))
    np.testing.assert_array_equal(tokens[:3], order[:3])
    assert tokens[3, 0] == size // 2 and len(set(tokens[3])) == number
