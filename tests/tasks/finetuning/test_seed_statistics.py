"""Means over seeds and their confidence intervals against scipy."""

import numpy as np
import pytest
import scipy.stats

from keras_attn.tasks.classification.fields import FIELDS
from keras_attn.tasks.classification.metrics import METRICS as CLASSIFICATION
from keras_attn.tasks.classification.metrics import MULTILABEL_METRICS
from keras_attn.tasks.finetuning.ranking import RETRIEVAL
from keras_attn.tasks.finetuning.seed_statistics import mean_interval, student_t_quantile


def test_all_metrics_of_classification_are_declared():
    assert set(FIELDS.metrics) == {*CLASSIFICATION, *MULTILABEL_METRICS, *RETRIEVAL}


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 9, 30, 101])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_student_t_quantiles_equal_scipy(degrees, confidence):
    expected = scipy.stats.t.ppf((1 + confidence) / 2, degrees)
    # SciPy 1.11 inverts the distribution to 1e-8.
    assert student_t_quantile(confidence, degrees) == pytest.approx(expected, rel=1e-7)


def test_mean_interval_equals_scipy():
    values = [0.81, 0.83, 0.79, 0.85, 0.82]
    low, high = scipy.stats.t.interval(0.95, 4, np.mean(values), scipy.stats.sem(values))
    mean, half = mean_interval(values)
    assert (mean - half, mean + half) == pytest.approx((low, high))
    mean, half = mean_interval([0.5])
    assert mean == 0.5 and np.isnan(half)
    with pytest.raises(ValueError):
        mean_interval([])
