"""Metrics against scikit-learn, SciPy and counts made by hand."""

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from keras_attn.tasks.classification import metrics


def _random_classes(seed, num_classes, rows=200):
    random = np.random.default_rng(seed)
    labels = random.integers(0, num_classes, rows)
    predicted = np.where(random.random(rows) < 0.5, labels, random.integers(0, num_classes, rows))
    return labels, predicted, random.uniform(0.1, 2.0, rows)


@pytest.mark.parametrize("num_classes", [2, 3, 7])
@pytest.mark.parametrize("weighted", [False, True])
def test_class_metrics_equal_scikit_learn(num_classes, weighted):
    labels, predicted, weight = _random_classes(num_classes, num_classes)
    weight = weight if weighted else None
    kw = {"sample_weight": weight}
    close = pytest.approx
    assert metrics.accuracy(labels, predicted, weight) == close(
        sklearn.metrics.accuracy_score(labels, predicted, **kw)
    )
    assert metrics.f1_macro(labels, predicted, weight) == close(
        sklearn.metrics.f1_score(labels, predicted, average="macro", **kw)
    )
    assert metrics.matthews(labels, predicted, weight) == close(
        sklearn.metrics.matthews_corrcoef(labels, predicted, **kw)
    )
    np.testing.assert_allclose(
        metrics.confusion_counts(labels, predicted, num_classes, weight),
        sklearn.metrics.confusion_matrix(labels, predicted, **kw),
    )
    if num_classes == 2:
        assert metrics.f1(labels, predicted, weight) == close(
            sklearn.metrics.f1_score(labels, predicted, **kw)
        )


@pytest.mark.parametrize("ties", [False, True])
def test_correlations_equal_scipy(ties):
    random = np.random.default_rng(3)
    x = random.normal(size=300)
    y = x + random.normal(size=300)
    if ties:
        x, y = np.round(x), np.round(y * 2)
    assert metrics.pearson(x, y) == pytest.approx(scipy.stats.pearsonr(x, y)[0], abs=1e-12)
    assert metrics.spearman(x, y) == pytest.approx(scipy.stats.spearmanr(x, y)[0], abs=1e-12)


def test_weighted_pearson_equals_numpy_covariance():
    random = np.random.default_rng(4)
    x, y = random.normal(size=(2, 50))
    repeats = random.integers(0, 4, 50)
    repeated = np.corrcoef(np.repeat(x, repeats), np.repeat(y, repeats))[0, 1]
    assert metrics.pearson(x, y, repeats) == pytest.approx(repeated)


def test_mean_squared_error_is_the_mean_of_squares():
    assert metrics.mean_squared_error([1.0, 2.0], [2.0, 4.0]) == pytest.approx((1 + 4) / 2)


@pytest.mark.parametrize("name", sorted(metrics.METRICS))
def test_rows_of_weight_zero_change_nothing(name):
    labels, predicted, weight = _random_classes(5, 2)
    weight[::3] = 0
    kept = weight != 0
    metric = metrics.METRICS[name]
    spoiled = np.where(kept, predicted, 1 - labels)
    assert metric(labels, spoiled, weight) == metric(labels[kept], predicted[kept], weight[kept])
    assert metric(labels, predicted) != metric(labels, spoiled)


@pytest.mark.parametrize("name", sorted(metrics.METRICS))
def test_no_rows_give_zero(name):
    assert metrics.METRICS[name](np.zeros(3), np.ones(3), np.zeros(3)) == 0.0


def test_degenerate_predictions_give_zero():
    mixed, ones, zeros = np.array([0, 1, 1, 0]), np.ones(4, int), np.zeros(4, int)
    assert metrics.f1(zeros, zeros) == 0.0
    assert metrics.f1(ones, zeros) == 0.0
    for constant in (ones, zeros):
        assert metrics.matthews(mixed, constant) == 0.0
        assert metrics.matthews(constant, mixed) == 0.0
        assert metrics.pearson(mixed, constant) == 0.0
        assert metrics.spearman(constant, mixed) == 0.0
    assert metrics.pearson(np.arange(3) * 0.1, np.full(3, 0.1)) == 0.0


def test_exact_predictions_score_one():
    labels = np.array([0, 1, 2, 2, 1, 0])
    for name in ("accuracy", "f1_macro", "matthews", "pearson", "spearman"):
        assert metrics.METRICS[name](labels, labels) == pytest.approx(1.0)
    assert metrics.matthews(labels[:2], 1 - labels[:2]) == pytest.approx(-1.0)


def test_logits_are_turned_into_predictions():
    logits = np.array([[1.0, 0.0], [0.0, 3.0], [2.0, 2.0], [-1.0, 0.0]])  # 0 1 0 1
    found = metrics.classification_metrics([0, 1, 1, 0], logits)
    assert found == {"accuracy": 0.5, "f1": 0.5}
    found = metrics.classification_metrics([0, 1, 1, 0], logits, ["accuracy"], False, [1, 1, 0, 0])
    assert found == {"accuracy": 1.0}
    three = metrics.classification_metrics([0, 2], np.eye(3)[[0, 2]])
    assert three == {"accuracy": 1.0, "f1_macro": 1.0}
    numbers = metrics.classification_metrics(
        np.array([1.0, 2.0, 4.0]), np.array([[1.5], [2.5], [3.5]]), regression=True
    )
    assert set(numbers) == {"pearson", "spearman", "mean_squared_error"}
    assert numbers["spearman"] == pytest.approx(1.0)
    assert numbers["mean_squared_error"] == pytest.approx(0.25)
    assert all(type(value) is float for value in numbers.values())


@pytest.mark.parametrize(
    "args",
    [
        ([0], np.zeros((1, 3)), ["f1"]),
        ([0], np.zeros((1, 3)), ["acuracy"]),
        ([0], np.zeros(1), None),
        ([0, 1], np.zeros((1, 3)), None),
        ([0], np.zeros((1, 2)), None, True),
    ],
)
def test_what_does_not_fit_is_refused(args):
    with pytest.raises(ValueError, match="Received"):
        metrics.classification_metrics(*args)
