"""Numbers of a report against scikit-learn, SciPy and the formulas."""

import json

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from keras_attn.reports.sections import thinned
from keras_attn.tasks.classification.report_numbers import (
    calibration,
    class_details,
    class_scores,
    most_confident_errors,
    most_confused,
    one_hot,
    proportion_interval,
)

RANDOM = np.random.default_rng(0)


def _assert_scores_are_those_of_scikit_learn(actual, predicted, occurring, every=False):
    classes, macro, micro = class_scores(actual, predicted, every)
    wanted = metrics.precision_recall_fscore_support(actual, predicted, zero_division=0)[:3]
    np.testing.assert_allclose(np.transpose(classes), wanted)
    for found, average in ((macro, "macro"), (micro, "micro")):
        wanted = metrics.precision_recall_fscore_support(
            actual[:, occurring], predicted[:, occurring], average=average, zero_division=0
        )[:3]
        np.testing.assert_allclose(found, wanted)


def test_scores_of_classes_and_their_averages():
    labels, predictions = RANDOM.integers(0, 5, 200), RANDOM.integers(0, 4, 200)
    labels[labels == 2] = 3
    actual, predicted = one_hot(labels, 6), one_hot(predictions, 6)
    _assert_scores_are_those_of_scikit_learn(actual, predicted, [0, 1, 2, 3, 4])
    assert class_scores(actual, predicted)[1].f1 == pytest.approx(
        metrics.f1_score(labels, predictions, average="macro")
    )


def test_scores_of_several_labels_a_row():
    actual, predicted = RANDOM.random((2, 50, 4)) < [0.4, 0.1, 0.0, 0.7]
    _assert_scores_are_those_of_scikit_learn(actual, predicted, [0, 1, 2, 3], every=True)


@pytest.mark.parametrize(("hits", "rows"), [(0, 7), (7, 7), (1, 2), (812, 1000)])
def test_the_interval_of_a_proportion_is_wilsons(hits, rows):
    wanted = stats.binomtest(hits, rows).proportion_ci(0.95, method="wilson")
    np.testing.assert_allclose(proportion_interval(hits / rows, rows), wanted, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 5])
def test_bins_of_calibration_follow_the_formula(classes):
    probabilities = RANDOM.dirichlet(np.ones(classes), 300).max(axis=1)
    probabilities[:2] = 1.0, 0.7
    right = RANDOM.random(300) < probabilities**2
    bins, error = calibration(probabilities, right)
    wanted = 0.0
    for k in range(10):
        low, high = k / 10, (k + 1) / 10
        inside = (probabilities >= low) & ((probabilities < high) | (k == 9))
        found = [b for b in bins if b.low == pytest.approx(low)]
        assert sum(b.rows for b in found) == inside.sum()
        if inside.any():
            assert found[0].probability == pytest.approx(probabilities[inside].mean())
            assert found[0].accuracy == pytest.approx(right[inside].mean())
            wanted += inside.mean() * abs(right[inside].mean() - probabilities[inside].mean())
    assert error == pytest.approx(wanted)


def test_probabilities_that_hold_have_no_calibration_error():
    assert calibration(np.full(10, 0.7), np.arange(10) < 7)[1] == pytest.approx(0)


def test_most_confident_errors_are_wrong_and_in_order():
    probabilities = np.array([0.9, 0.8, 0.99, 0.8, 0.6])
    right = np.array([False, False, True, False, False])
    assert most_confident_errors(probabilities, right, 3).tolist() == [0, 1, 3]
    assert most_confident_errors(probabilities, np.ones(5, bool)).tolist() == []


def test_the_most_confused_have_the_most_errors_on_either_side():
    counts = np.diag([50, 40, 30, 20])
    counts[0, 3], counts[1, 3], counts[2, 1] = 5, 1, 2
    assert most_confused(counts, 2).tolist() == [0, 3]
    assert most_confused(counts, 9).tolist() == [0, 1, 2, 3]


def test_long_curves_become_means_of_windows():
    steps = np.arange(1, 1001)
    values = np.where(steps == 500, np.nan, steps)
    ends, means, window = thinned(steps, values, most=10)
    assert window == 100 and len(ends) == 10 and ends[-1] == 1000
    assert means[0] == pytest.approx(np.mean(steps[:100]))
    assert np.dot(np.diff([0, *range(100, 1000, 100), 999]), means) == pytest.approx(
        np.nansum(values)
    )
    assert thinned([], [])[0].size == 0
    np.testing.assert_array_equal(thinned([3, 4], [1.0, 2.0])[1], [1.0, 2.0])


def test_class_details_equal_scikit_learn():
    names, labels = ("a", "b", "c"), RANDOM.integers(0, 3, 50)
    shares = RANDOM.dirichlet(np.ones(3), 50)
    found, predictions = class_details(names, labels, shares, "single_label"), shares.argmax(axis=1)
    wanted = metrics.classification_report(
        labels, predictions, target_names=names, output_dict=True, zero_division=0
    )
    for name in names:
        assert found["classes"][name] == pytest.approx(
            {
                "precision": wanted[name]["precision"],
                "recall": wanted[name]["recall"],
                "f1": wanted[name]["f1-score"],
                "rows": wanted[name]["support"],
            }
        )
    assert found["macro"]["f1"] == pytest.approx(wanted["macro avg"]["f1-score"])
    assert found["micro"]["f1"] == pytest.approx(wanted["accuracy"])
    assert found["confusion"] == metrics.confusion_matrix(labels, predictions).tolist()
    assert json.loads(json.dumps(found)) == found
    several = RANDOM.random((50, 3)) < 0.4
    chances = RANDOM.random((50, 3))
    found = class_details(names, several, chances, "multilabel")
    assert found["micro"]["f1"] == pytest.approx(
        metrics.f1_score(several, chances > 0.5, average="micro")
    )
    assert "confusion" not in found
    assert class_details((), RANDOM.random(5), RANDOM.random((5, 1)), "regression") == {}
