"""Metrics over several seeds: means, deviations and confidence intervals."""

import math

import numpy as np

from keras_attn.registry import TASKS


def metrics_among(results):
    """Those of the results of a run that are metrics of its task, and `loss`."""
    return {
        name: value
        for name, value in results.items()
        if name == "loss" or any(name in TASKS.fields(task).metrics for task in TASKS)
    }


def mean_interval(values, confidence=0.95):
    """Mean of independent runs and the half width of its confidence interval.

    Student's t, exact for normal values: `mean ± t s / sqrt(n)`, with s the
    standard deviation of the n values (n - 1 in the denominator).

    Returns:
        `(mean, half width)`; the half width of one value is NaN.
    """
    values = np.asarray(values, np.float64)
    if not values.size:
        raise ValueError("At least one value is needed. Received: values=[]")
    mean, n = float(np.mean(values)), values.size
    if n == 1:
        return mean, math.nan
    spread = float(np.std(values, ddof=1)) / math.sqrt(n)
    return mean, student_t_quantile(confidence, n - 1) * spread


def over_seeds(runs, names):
    """Mean and spread of metrics over runs that differ in their seeds.

    Args:
        runs: Dicts with these metrics.
        names: Of the metrics.

    Returns:
        Dict: the mean of each, and of more than one run `<metric>_deviation`, the standard
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


def told_over_seeds(found, names, count):
    """Lines of what `over_seeds` found in so many runs."""
    for name in names:
        spread = (
            ""
            if count == 1
            else (
                f" ± {found[name + '_interval']:.4f} (95 % interval of the mean of {count} seeds; "
                f"deviation {found[name + '_deviation']:.4f})"
            )
        )
        yield f"{name} {found[name]:.4f}{spread}"


def student_t_quantile(confidence, degrees):
    """The t with `P(|T| < t) = confidence`, by bisection to full double precision.

    Args:
        confidence: Two-sided probability in (0, 1).
        degrees: Degrees of freedom, a positive integer.

    Reference:
        Abramowitz & Stegun, Handbook of Mathematical Functions, eq. 26.7.3-4:
        for whole degrees of freedom the distribution is a finite sum.
    """
    if not 0 < confidence < 1 or degrees < 1:
        raise ValueError(
            "A confidence in (0, 1) and at least one degree of freedom are needed. "
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
