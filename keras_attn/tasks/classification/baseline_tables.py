"""Tables of a report that compare the model with its baselines."""

import numpy as np

from keras_attn.reports.charts import interval_bar
from keras_attn.reports.page import join, section, table, tag
from keras_attn.reports.sections import figure
from keras_attn.tasks.classification.report_numbers import proportion_interval

_NAMES = {
    "bag_of_bigrams": "bag of bigrams",
    "most_frequent": "always the most frequent class",
    "mean": "always the mean training label",
}


def accuracy_table(models, rows):
    """Accuracies with 95 % confidence intervals.

    Args:
        models: Pairs of the name of a model and its accuracy, or the reason why there is none.
        rows: Number of validation rows.
    """
    known = {
        name: proportion_interval(accuracy, rows)
        for name, accuracy in models
        if not isinstance(accuracy, str)
    }
    low = min(np.floor(10 * interval[0]) / 10 for interval in known.values())
    cells = []
    for name, accuracy in models:
        if name in known:
            ends = known[name]
            cells.append(
                [
                    name,
                    figure(accuracy),
                    f"{ends[0]:.3f} to {ends[1]:.3f}",
                    interval_bar(accuracy, ends, low),
                ]
            )
        else:
            cells.append([name, (accuracy, {"colspan": 3, "class": "text"})])
    heads = ["model", "accuracy", "95 % interval", f"{low:g} to 1"]
    return join(
        table("Accuracy and baselines", heads, cells),
        tag(
            "p",
            f"Wilson confidence intervals for a sample of {rows:,} rows; they do not include the "
            "variation between seeds.",
            class_="faint",
        ),
    )


def error_table(models):
    """Mean squared errors.

    Args:
        models: Pairs of the name of a model and its error, or the reason why there is none.
    """
    cells = [
        [name, (error, {"class": "text"}) if isinstance(error, str) else figure(error)]
        for name, error in models
    ]
    return table("Mean squared error and baselines", ["model", "mean squared error"], cells)


def baselines_of_runs(results):
    """Section with the mean metric over seeds and the baselines.

    Args:
        results: Of several runs, see `repeat`.
    """
    if not results.get("to_beat"):
        return ""
    metric = "mean_squared_error" if "mean" in results["to_beat"] else "accuracy"
    half = results.get(f"{metric}_interval")
    cells = []
    if metric in results:  # some GLUE tasks have other metrics
        interval = f" ± {figure(half)}" if half is not None else ""
        cells.append(["this model, mean over seeds", figure(results[metric]) + interval])
    cells += [
        [_NAMES[name], (value, {"class": "text"}) if isinstance(value, str) else figure(value)]
        for name, value in results["to_beat"].items()
    ]
    heads = ["model", metric.replace("_", " ")]
    return section("Baselines", table("Mean and baselines", heads, cells))
