"""Learning rates equal the formulas."""

import numpy as np
import pytest

from keras_attn.errors import UserError
from keras_attn.training.schedules import learning_rates


def _rate(at, **options):
    return float(learning_rates([at], peak=2.0, **options)[0])


@pytest.mark.parametrize("schedule", ["linear", "cosine", "constant", "wsd"])
def test_warmup_rises_linearly_from_zero_to_the_peak(schedule):
    at = np.array([0.0, 0.05, 0.1, 0.2])
    rates = learning_rates(at, peak=2.0, warmup_fraction=0.2, schedule=schedule)
    np.testing.assert_allclose(rates, [0.0, 0.5, 1.0, 2.0], atol=1e-6)


def test_the_linear_schedule_falls_to_zero():
    assert _rate(0.6, warmup_fraction=0.2) == pytest.approx(1.0)
    assert _rate(0.8, warmup_fraction=0.2) == pytest.approx(0.5)
    assert _rate(1.0, warmup_fraction=0.2) == 0.0


def test_the_cosine_schedule_falls_along_half_a_cosine():
    for at in (0.2, 0.4, 0.6, 0.9, 1.0):
        wanted = 1.0 + np.cos(np.pi * (at - 0.2) / 0.8)
        assert _rate(at, warmup_fraction=0.2, schedule="cosine") == pytest.approx(wanted, abs=1e-6)


def test_the_inverse_sqrt_schedule_falls_with_the_root_of_the_steps():
    for at in (0.1, 0.4, 0.9, 1.0):
        rate = _rate(at, warmup_fraction=0.1, schedule="inverse_sqrt")
        assert rate == pytest.approx(2.0 * (0.1 / at) ** 0.5)
    assert _rate(0.05, warmup_fraction=0.1, schedule="inverse_sqrt") == pytest.approx(1.0)


def test_the_wsd_schedule_is_constant_and_then_falls_with_one_minus_the_root():
    options = {"warmup_fraction": 0.1, "schedule": "wsd", "decay_fraction": 0.2}
    assert _rate(0.05, **options) == pytest.approx(1.0)
    assert _rate(0.1, **options) == _rate(0.8, **options) == 2.0
    for at in (0.85, 0.9, 1.0):
        wanted = 2.0 * (1.0 - ((at - 0.8) / 0.2) ** 0.5)
        assert _rate(at, **options) == pytest.approx(wanted, abs=1e-6)
    assert _rate(1.0, warmup_fraction=0.0, schedule="wsd", decay_fraction=0.0) == 2.0


def test_without_warmup_the_first_rate_is_the_peak():
    assert _rate(0.0, warmup_fraction=0.0) == 2.0
    assert _rate(0.01, warmup_fraction=0.0) == pytest.approx(2.0 * 0.99)


def test_the_rate_is_zero_after_the_end_of_the_run():
    assert _rate(1.3) == 0.0 and _rate(1.3, schedule="constant") == 2.0


def test_an_unknown_schedule_is_an_error_that_lists_the_known_ones():
    with pytest.raises(
        UserError, match="linear, cosine, constant, inverse_sqrt, wsd. Received: lin"
    ):
        _rate(0.5, schedule="lin")
