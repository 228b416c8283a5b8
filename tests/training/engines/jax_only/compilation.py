"""A step is compiled once for each shape of a batch. Run by tests/backends, on JAX."""

import pytest

from tests.support.engines import step_of
from tests.support.regression import Examples, Regression


@pytest.mark.parametrize("replicas", [1, 2])
def test_calls_of_any_length_share_one_compilation(replicas):
    step, feed = step_of(Regression, Examples(), replicas)
    for first, count in ((0, 1), (1, 3), (4, 2)):
        step.run(feed, first, [0.1] * count)
    assert step._compiled._cache_size() == 1
