import numpy as np
import pytest
from keras import ops

from keras_attn.ops import (
    as_mask,
    causal_mask,
    combine_masks,
    masked_softmax,
    pack_mask,
    padding_mask,
    sinusoidal_positions,
)


def test_padding_mask_is_true_for_the_first_positions():
    found = ops.convert_to_numpy(padding_mask([2, 0, 3], 3))
    assert found.tolist() == [[True, True, False], [False] * 3, [True] * 3]


def test_causal_mask_by_hand():
    end = ops.convert_to_numpy(causal_mask(2, 4))
    assert end.astype(int).tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    start = ops.convert_to_numpy(causal_mask(2, 4, align="start"))
    assert start.astype(int).tolist() == [[1, 0, 0, 0], [1, 1, 0, 0]]
    more_queries = ops.convert_to_numpy(causal_mask(3, 2))
    assert more_queries.astype(int).tolist() == [[0, 0], [1, 0], [1, 1]]


def test_causal_mask_shifts_by_an_offset_for_all_or_for_each_row():
    one = ops.convert_to_numpy(causal_mask(2, 4, align="start", offset=1))
    assert one.astype(int).tolist() == [[1, 1, 0, 0], [1, 1, 1, 0]]
    rows = ops.convert_to_numpy(causal_mask(1, 3, align="start", offset=np.array([0, 2])))
    assert rows.astype(int).tolist() == [[[1, 0, 0]], [[1, 1, 1]]]


def test_pack_mask_keeps_examples_apart():
    found = ops.convert_to_numpy(pack_mask(np.array([[1, 1, 2]])))
    assert found.astype(int).tolist() == [[[1, 1, 0], [1, 1, 0], [0, 0, 1]]]
    cross = ops.convert_to_numpy(pack_mask(np.array([[1, 2]]), np.array([[1, 1, 2]])))
    assert cross.astype(int).tolist() == [[[1, 1, 0], [0, 0, 1]]]


def test_combined_masks_broadcast_and_ignore_none():
    rows, columns = np.array([[1], [0]]), np.array([[True, False, True]])
    found = ops.convert_to_numpy(combine_masks(None, rows, columns))
    assert found.tolist() == [[True, False, True], [False] * 3]
    assert combine_masks(None, None) is None


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_float_masks_are_refused(dtype):
    with pytest.raises(ValueError, match=f"padding < 0.5`. Received: padding of dtype {dtype}"):
        as_mask(np.zeros((2, 2), dtype), "padding")


@pytest.mark.parametrize("dtype", ["bool", "int32", "uint8", "int64"])
def test_boolean_and_integer_masks_mean_the_same(dtype):
    found = ops.convert_to_numpy(as_mask(np.array([0, 1, 1]).astype(dtype)))
    assert found.dtype == bool and found.tolist() == [False, True, True]


def test_the_softmax_is_over_the_unmasked_keys():
    logits = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
    mask = np.array([[1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0]])
    terms = np.exp(logits.astype("float64")) * mask
    expected = terms / np.maximum(terms.sum(-1, keepdims=True), 1e-30)
    found = ops.convert_to_numpy(masked_softmax(logits, mask))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert not found[2].any()


def test_sinusoidal_positions_equal_the_formula_far_out():
    positions = np.array([[0, 1, 511], [1000, 4095, 7]])
    found = ops.convert_to_numpy(sinusoidal_positions(positions, 8))
    angles = positions[..., None] / 10000 ** (np.arange(0, 8, 2) / 8)
    np.testing.assert_allclose(found[..., 0::2], np.sin(angles), atol=5e-4)
    np.testing.assert_allclose(found[..., 1::2], np.cos(angles), atol=5e-4)
    assert found.dtype == np.float32


def test_layouts_hold_the_same_numbers():
    one = ops.convert_to_numpy(sinusoidal_positions(np.arange(9), 7))
    two = ops.convert_to_numpy(sinusoidal_positions(np.arange(9), 7, layout="concat"))
    np.testing.assert_array_equal(np.concatenate([one[:, 0::2], one[:, 1::2]], 1), two)
