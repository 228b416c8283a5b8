"""Counts in messages agree with their nouns."""

import re

import numpy as np
import pytest

from keras_attn.counts import counted


@pytest.mark.parametrize(
    "count, expected",
    [
        (0, "0 rows"),
        (1, "1 row"),
        (2, "2 rows"),
        (1234567, "1,234,567 rows"),
        (np.int64(1), "1 row"),
        (np.int32(2000), "2,000 rows"),
    ],
)
def test_a_count_agrees_with_its_noun(count, expected):
    assert counted(count, "row") == expected
    assert counted(count, "row is", "rows are") == re.sub(
        "row.*", "row is" if count == 1 else "rows are", expected
    )
