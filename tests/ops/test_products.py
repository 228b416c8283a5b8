"""Products of rows against NumPy's."""

import numpy as np
import pytest
from keras import ops

from keras_attn.ops.products import MAX_ROWS, linear_transposed


@pytest.mark.parametrize("rows", [1, MAX_ROWS, MAX_ROWS + 1])
def test_rows_by_a_table(rows):
    random = np.random.default_rng(rows)
    x, table = (random.normal(size=size).astype("float32") for size in ((rows, 8), (50, 8)))
    found = linear_transposed(*map(ops.convert_to_tensor, (x, table)))
    np.testing.assert_allclose(ops.convert_to_numpy(found), x @ table.T, 1e-5, 1e-5)
