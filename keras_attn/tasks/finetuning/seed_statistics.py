"""Metrics over several seeds: means, standard deviations and confidence intervals."""

import math

import numpy as np

from keras_attn.registry import TASKS


def metrics_among(results):
    """Returns the results that are metrics of a task, and `loss`."""
    return {
        name: value
        for name, value in results.items()
        if name == "loss" or any(name in TASKS.fields(task).metrics for task in TASKS)
    }


def mean_interval(values, confidence=0.95):
    """Returns the mean of independent runs and half the length of its confidence interval.

    The interval of Student's t, `mean ± t s / sqrt(n)`, is exact for normally distributed values; s
    is the sample standard deviation.

    Args:
        values: Metric of each run.
        confidence: Confidence level.

    Returns:
        (mean, half length of the interval, NaN for a single value).
    """
    values = np.asarray(values, np.float64)
    if not values.size:
        raise ValueError("values must not be empty. Received: values=[]")
    mean, n = float(np.mean(values)), values.size
    if n == 1:
        return mean, math.nan
    error = float(np.std(values, ddof=1)) / math.sqrt(n)
    return mean, student_t_quantile(confidence, n - 1) * error


def over_seeds(runs, names):
    """Returns statistics of the metrics of runs with different seeds.

    Args:
        runs: Dicts of metrics.
        names: Names of the metrics.

    Returns:
        Dict: the mean of each metric and, for several runs, `<metric>_deviation`, the standard
        deviation, and `<metric>_interval`, half the 95 % confidence interval of the mean.
    """
    found = {}
    for name in names:
        values = [run[name] for run in runs]
        found[name], interval = mean_interval(values)
        if len(values) > 1:
            found[f"{name}_deviation"] = float(np.std(values, ddof=1))
            found[f"{name}_interval"] = interval
    return found


def metric_lines(found, names, count):
    """Yields a line per metric for the statistics that `over_seeds` returned for `count` runs."""
    for name in names:
        interval = ""
        if count > 1:
            interval = (
                f" ± {found[name + '_interval']:.4f} (95 % interval of the mean of {count} seeds; "
                f"standard deviation {found[name + '_deviation']:.4f})"
            )
        yield f"{name} {found[name]:.4f}{interval}"


def student_t_quantile(confidence, degrees):
    """Returns the t with `P(|T| < t) = confidence`, by bisection to double precision.

    Args:
        confidence: Two-sided probability in (0, 1).
        degrees: Degrees of freedom, a positive integer.

    Reference:
        Abramowitz & Stegun, Handbook of Mathematical Functions, eq. 26.7.3-4:
        for integer degrees of freedom the distribution is a finite sum.
    """
    if not 0 < confidence < 1 or degrees < 1:
        raise ValueError(
            "confidence must be in (0, 1), and degrees at least 1. "
            f"Received: confidence={confidence}, degrees={degrees}"
        )
    low, high = 0.0, math.pi / 2  # the angle atan(t / sqrt(degrees))
    for _ in range(100):
        angle = (low + high) / 2
        low, high = (angle, high) if _within(angle, degrees) < confidence else (low, angle)
    return math.tan((low + high) / 2) * math.sqrt(degrees)


def _within(angle, degrees):
    """P(|T| < tan(angle) sqrt(degrees))."""
    odd = degrees % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for k in range(1 + odd, degrees, 2):
        total += term
        term *= math.cos(angle) ** 2 * k / (k + 1)
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total
