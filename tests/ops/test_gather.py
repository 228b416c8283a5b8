"""Vectors of chosen positions."""

import numpy as np
from keras import ops

from keras_attn.ops import take_positions


def test_each_row_gives_its_own_positions():
    random = np.random.default_rng(0)
    x = random.normal(size=(3, 7, 4)).astype(np.float32)
    positions = random.integers(0, 7, (3, 5))
    expected = np.stack([row[chosen] for row, chosen in zip(x, positions, strict=True)])
    np.testing.assert_array_equal(ops.convert_to_numpy(take_positions(x, positions)), expected)
    assert take_positions(x, positions[:, :0]).shape == (3, 0, 4)
