"""The sections of a report: values in, parts of the page out."""

import numpy as np

from keras_attn.counts import counted
from keras_attn.reports.charts import Chart, interval_bar
from keras_attn.reports.page import columns, cut, isolated, join, section, table, tag
from keras_attn.reports.sections import MOST_ROWS, figure
from keras_attn.tasks.classification.metrics import confusion_counts
from keras_attn.tasks.classification.report_numbers import (
    Scores,
    calibration,
    class_scores,
    most_confused,
    share_interval,
    surest_errors,
)

MOST_CLASSES = 12  # of a confusion matrix
MOST_POINTS = 1000  # of a scatter plot


def lines_to_beat(lines, rows):
    """Accuracies with their 95 % intervals.

    Args:
        lines: Pairs of a name and an accuracy, or why there is none.
        rows: How many there are.
    """
    known = {
        name: share_interval(share, rows) for name, share in lines if not isinstance(share, str)
    }
    low = min(np.floor(10 * interval[0]) / 10 for interval in known.values())
    cells = []
    for name, share in lines:
        if name in known:
            ends = known[name]
            cells.append(
                [
                    name,
                    figure(share),
                    f"{ends[0]:.3f} to {ends[1]:.3f}",
                    interval_bar(share, ends, low),
                ]
            )
        else:
            cells.append([name, (share, {"colspan": 3, "class": "text"})])
    heads = ["model", "accuracy", "95 % interval", f"{low:g} to 1"]
    return join(
        table("Accuracy and what it has to beat", heads, cells),
        tag(
            "p",
            f"Wilson's intervals: how far other rows like these {rows:,} could move "
            "the number. Another seed moves it, too.",
            class_="faint",
        ),
    )


def errors_to_beat(lines):
    """Mean squared errors.

    Args:
        lines: Pairs of a name and an error, or why there is none.
    """
    cells = [
        [name, (error, {"class": "text"}) if isinstance(error, str) else figure(error)]
        for name, error in lines
    ]
    return table(
        "Mean squared error and what it has to beat", ["model", "mean squared error"], cells
    )


def classes(names, actual, predicted, training, every):
    """Precision, recall and F1 of each class.

    Args:
        names: Of the classes.
        actual, predicted, every: See `class_scores`.
        training: Training rows of each class.
    """
    found, macro, micro = class_scores(actual, predicted, every)
    return _scores_of_classes(
        "Scores of the classes",
        names,
        found,
        macro,
        micro,
        {"validation": actual.sum(axis=0), "training": training},
        [f"{actual.sum():,}", f"{training.sum():,}"],
    )


def _scores_of_classes(title, names, each, macro, micro, counts, totals):
    """Section of a table: `Scores` of each class and their averages, counts by what they are."""
    cells = [
        [isolated(name), *map(figure, scores), *(f"{count:,}" for count in of_class)]
        for name, scores, of_class in zip(
            names, each, zip(*counts.values(), strict=True), strict=True
        )
    ]
    foot = [
        ["macro average", *map(figure, macro), *totals],
        ["micro average", *map(figure, micro), *totals],
    ]
    return section(
        "Classes", table(title, ["class", "precision", "recall", "F1", *counts], cells, foot)
    )


def runs_to_beat(results):
    """Means over seeds and what they have to beat.

    Args:
        results: Of several runs, see `repeat`.
    """
    told = {
        "bag_of_bigrams": "bag of bigrams",
        "most_frequent": "always the most frequent",
        "mean": "always the mean of training",
    }
    if not results.get("to_beat"):
        return ""
    metric = "mean_squared_error" if "mean" in results["to_beat"] else "accuracy"
    half = results.get(f"{metric}_interval")
    own = (
        [
            [
                "this model, mean of its seeds",
                figure(results[metric]) + (f" ± {figure(half)}" if half is not None else ""),
            ]
        ]
        if metric in results
        else []
    )  # some GLUE tasks are not measured by it
    cells = [
        *own,
        *(
            [told[name], (value, {"class": "text"}) if isinstance(value, str) else figure(value)]
            for name, value in results["to_beat"].items()
        ),
    ]
    return section(
        "To beat", table("What it has to beat", ["model", metric.replace("_", " ")], cells)
    )


def mean_classes(results):
    """Scores of the classes, means over seeds.

    Args:
        results: Of several runs, see `repeat`.
    """
    if "classes" not in results:
        return ""

    def read(scores):
        return Scores(*(scores[name] for name in Scores._fields))

    found = results["classes"]
    return _scores_of_classes(
        "Mean scores of the classes",
        found,
        map(read, found.values()),
        read(results["macro"]),
        read(results["micro"]),
        {"validation": [scores["rows"] for scores in found.values()]},
        [""],
    )


def surest_errors_of_best(results, best):
    """A link to what only the report of a single run has.

    Args:
        results: Of several runs, see `repeat`.
        best: Address of the report of the best one.
    """
    return (
        section(
            "Most sure, and wrong",
            tag(
                "p",
                tag("a", "The page of the best run", href=best),
                " has the rows that it is most sure and wrong about, confusions and calibration.",
            ),
        )
        if "classes" in results
        else ""
    )


def confusion(names, labels, predicted):
    """The confusion matrix; of many classes, of those with the most errors.

    Args:
        names: Of the classes.
        labels, predicted: Class indices `(N,)`.
    """
    counts = confusion_counts(labels, predicted, len(names)).astype(int)
    shown = most_confused(counts, MOST_CLASSES)
    totals = counts.sum(axis=1)

    def cell(label, prediction):
        count = counts[label, prediction]
        share = count / max(1, totals[label])
        return f"{count:,}" if count else "·", {
            "style": f"--share: {share:.3f}" if count else None,
            "title": f"labelled {names[label]}, predicted {names[prediction]}: "
            f"{counted(count, 'row')}, {share:.1%} of the label",
        }

    inside = counts[np.ix_(shown, shown)]
    line = "Rows are labels, columns are predictions."
    if len(shown) < len(names):
        errors, of = (int(c.sum() - np.trace(c)) for c in (inside, counts))
        line += (
            f" Of {len(names)} classes the {len(shown)} with the most errors are shown, with "
            f"{errors:,} of all {of:,} errors between them."
        )
    heads = [isolated(names[other]) for other in shown]
    kind = "matrix upright" if sum(len(names[other]) for other in shown) > 60 else "matrix"
    rows = [[isolated(names[label]), *(cell(label, other) for other in shown)] for label in shown]
    return section(
        "Confusion",
        tag("p", line, class_="faint"),
        table("Confusion matrix", ["label", *heads], rows, kind=kind),
    )


def calibrated(probabilities, right):
    """How far the probabilities of the predictions can be believed.

    Args:
        probabilities: `(N,)`, of what was predicted: classes, or that a row has a label or not.
        right: bool `(N,)`.
    """
    bins, error = calibration(probabilities, right)
    chart = Chart(
        f"Accuracy by probability of the prediction; expected calibration error {error:.3f}",
        (0, 1),
        (0, 1),
        ("probability", "accuracy"),
    )
    for low, high, count, probability, accuracy in bins:
        chart.bar(
            low,
            high,
            accuracy,
            f"{count:,} predictions: probability {probability:.3f}, accuracy {accuracy:.3f}",
        )
    chart.line((0, 1), (0, 1), "dashed")
    excess = probabilities.mean() - right.mean()
    cells = [
        [f"{b.low:.1f} to {b.high:.1f}", f"{b.rows:,}", figure(b.probability), figure(b.accuracy)]
        for b in bins
    ]
    return section(
        "Calibration",
        tag(
            "p",
            f"Expected calibration error {error:.3f}. On average predictions have a probability "
            f"of {probabilities.mean():.3f}, and {right.mean():.3f} of them are right: the model "
            f"is {'over' if excess > 0 else 'under'}confident by {abs(excess):.3f}.",
        ),
        columns(
            tag("figure", chart.svg()),
            table("Calibration", ["probability", "predictions", "its mean", "accuracy"], cells),
        ),
    )


def errors(names, actual, predicted, shares, sure, rows):
    """The rows of which the model is most sure and wrong.

    Args:
        names: Of the classes.
        actual, predicted: bool `(N, C)`.
        shares: Probabilities `(N, C)`.
        sure: How sure it is of what is wrong, `(N,)`.
        rows: Their `Table`.
    """

    def said(classes, row):
        found = [
            join(tag("strong", isolated(names[c])), f" {shares[row, c]:.1%}")
            for c in np.flatnonzero(classes[row])
        ]
        return join([[", " if number else "", one] for number, one in enumerate(found)]) or "none"

    right = (actual == predicted).all(axis=1)
    items = [
        _row(
            rows,
            row,
            join(
                tag("span", said(predicted, row), class_="wrong"), ", labelled ", said(actual, row)
            ),
        )
        for row in surest_errors(sure, right, MOST_ROWS)
    ]
    wrong = int(np.sum(~right))
    line = f"Wrong predictions: {wrong:,} of {counted(len(right), 'row')}" + (
        f"; the {len(items)} with the highest probability are here." if wrong > len(items) else "."
    )
    return section(
        "Most sure, and wrong", tag("p", line, class_="faint"), tag("ol", items, class_="rows")
    )


def _row(rows, row, said):
    texts = [rows.texts[row], *([rows.text_pairs[row]] if rows.text_pairs else [])]
    return tag(
        "li",
        tag("p", said, " · ", isolated(rows.where(row)), class_="meta"),
        [tag("blockquote", cut(text), dir="auto") for text in texts],
    )


def regression(labels, predictions, rows):
    """A scatter plot, and the rows with the largest errors; two sections.

    Args:
        labels, predictions: Numbers `(N,)`.
        rows: Their `Table`.
    """
    drawn = np.unique(np.linspace(0, len(labels) - 1, MOST_POINTS).astype(int))
    ends = (min(labels.min(), predictions.min()), max(labels.max(), predictions.max()))
    chart = Chart("Predictions by label", ends, ends, ("label", "prediction"))
    chart.line(ends, ends, "dashed")
    chart.dots(labels[drawn], predictions[drawn], kind="point")
    line = (
        f"{len(drawn):,} of {len(labels):,} rows, spread evenly."
        if len(drawn) < len(labels)
        else counted(len(labels), "row") + "."
    )
    distance = np.abs(predictions - labels)
    worst = np.argsort(-distance, kind="stable")[:MOST_ROWS]
    items = [
        _row(
            rows,
            row,
            join(
                tag("span", figure(predictions[row]), class_="wrong"),
                ", labelled ",
                tag("strong", figure(labels[row])),
            ),
        )
        for row in worst
    ]
    return [
        section("Predictions", tag("figure", chart.svg(), tag("figcaption", line), class_="wide")),
        section("Largest errors", tag("ol", items, class_="rows")),
    ]
