"""Declarations of tensors of other libraries."""

import pytest

from keras_attn.checkpoints.tensor_map import ExternalTensor


def test_a_row_of_a_tensor_requires_its_own_shape():
    assert ExternalTensor("stacked", (3, 4, 2), own_shape=(4, 2), row=1).own == (4, 2)
    with pytest.raises(ValueError, match="row=1 of stacked, own_shape=None"):
        ExternalTensor("stacked", (3, 4, 2), row=1)
