"""Sections that the reports of all runs share."""

import math

import numpy as np

from keras_attn.reports.charts import Chart
from keras_attn.reports.page import columns, section, table, tag

MAX_EXAMPLES = 20  # maximum number of examples with large errors


def figure(value):
    """Formats a number."""
    if 0 < abs(value) < 0.01:
        return f"{value:.2e}"
    return f"{value:.3f}" if not abs(value) >= 1000 else f"{value:,.0f}"


def numbers(metrics, halves=None):
    """Returns the metrics in large type, with half the width of their intervals if given."""

    def number(name, value):
        half = tag("small", f" ± {figure(halves[name])}") if halves else ""
        return tag("div", tag("dt", name), tag("dd", figure(value), half))

    return tag("dl", [number(*item) for item in metrics.items()], class_="numbers")


def curves(records, metric):
    """Returns the section with the learning curves.

    Args:
        records: Records of metrics.jsonl.
        metric: Name of the validation metric to plot in addition to the loss.
    """
    records = [record for record in records if {"loss", "learning_rate"} <= record.keys()]
    steps = [record["step"] for record in records]
    ends, losses, window = thinned(steps, [record["loss"] for record in records])
    lines = "Line: training" + (f", mean over {window:,} steps" if window > 1 else "")
    _, rates, _ = thinned(steps, [record["learning_rate"] for record in records])
    return section(
        "Learning curves",
        columns(
            _curve(
                "loss", (ends, losses), _validated(records, "loss"), f"{lines}. Dots: validation."
            ),
            _curve(metric, None, _validated(records, metric), "Validation."),
            _curve("learning rate", (ends, rates), None, "Learning rate schedule."),
            kind="three",
        ),
    )


def _validated(records, name):
    """Returns the steps and values of a validation metric."""
    found = [
        (record["step"], record[f"validation_{name}"])
        for record in records
        if np.isfinite(record.get(f"validation_{name}", np.nan))
    ]
    return [step for step, _ in found], [value for _, value in found]


def _curve(name, line, dots, caption):
    """Returns a chart over steps with a line, with connected dots, or both."""
    given = [curve for curve in (line, dots) if curve and len(curve[0])]
    values = [value for _, ys in given for value in ys] or [0, 1]
    last = max((max(xs) for xs, _ in given), default=1)
    low = min(values) if line is None else min(0, *values)
    chart = Chart(f"{name} by step", (0, last), (low, max(values)), ("step", ""))
    for number, (xs, ys) in enumerate(given, 1):
        chart.line(xs, ys, "line" if number == len(given) else "pale line")
    if dots:
        chart.dots(*dots, [f"step {x:,}: {figure(y)}" for x, y in zip(*dots, strict=True)])
    return tag("figure", tag("h3", name), chart.svg(), tag("figcaption", caption))


def run_facts(changed, facts):
    """Returns the section about the run.

    Args:
        changed: Rows of name, value and default of the fields that differ from their defaults.
        facts: Dict of names and values.
    """
    return section(
        "The run",
        columns(
            tag(
                "div",
                tag("h3", "Fields that differ from their defaults"),
                table("Changed fields", ["field", "value", "default"], changed, text=(0, 1, 2)),
            ),
            tag(
                "div",
                tag("h3", "Facts"),
                table("Facts", ["fact", "value"], facts.items(), text=(0, 1)),
            ),
        ),
    )


def thinned(steps, values, most=60):
    """Averages the finite values of a curve over at most `most` windows of steps.

    Args:
        steps, values: Arrays of shape `(N,)`.

    Returns:
        `(steps, means, window)`: the last step and the mean of each window, and the number of steps
        per window.
    """
    steps, values = np.asarray(steps), np.asarray(values, np.float64)
    finite = np.isfinite(values)
    steps, values = steps[finite], values[finite]
    window = max(1, math.ceil(len(steps) / most))
    starts = np.arange(0, len(steps), window)
    ends = np.minimum(starts + window, len(steps))
    if not len(steps):
        return steps, values, window
    return steps[ends - 1], np.add.reduceat(values, starts) / (ends - starts), window
