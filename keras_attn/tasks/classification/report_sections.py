"""Sections of the report on predictions: arrays in, HTML out."""

import numpy as np

from keras_attn.counts import counted
from keras_attn.reports.charts import Chart
from keras_attn.reports.page import columns, cut, isolated, join, section, table, tag
from keras_attn.reports.sections import MAX_EXAMPLES, figure
from keras_attn.tasks.classification.metrics import confusion_counts
from keras_attn.tasks.classification.report_numbers import (
    Scores,
    calibration,
    class_scores,
    most_confident_errors,
    most_confused,
)

MAX_CLASSES = 12  # of a confusion matrix
MAX_POINTS = 1000  # of a scatter plot


def classes(names, actual, predicted, training, every):
    """Precision, recall and F1 of each class.

    Args:
        names: Names of the classes.
        actual, predicted, every: See `class_scores`.
        training: Number of training rows of each class.
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
    """Section with the `Scores` of each class, their averages, and counts by column title."""
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


def mean_scores_of_classes(results):
    """Precision, recall and F1 of each class, averaged over seeds.

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


def link_to_errors(results, best):
    """Section with a link to the errors in the report of the best run.

    Args:
        results: Of several runs, see `repeat`.
        best: Address of the report of the best run.
    """
    if "classes" not in results:
        return ""
    link = tag("a", "The report of the best run", href=best)
    text = " shows its most confident errors, confusion matrix and calibration."
    return section("Most confident errors", tag("p", link, text))


def confusion(names, labels, predicted):
    """The confusion matrix, restricted to the classes with the most errors if there are many.

    Args:
        names: Names of the classes.
        labels, predicted: Class indices `(N,)`.
    """
    counts = confusion_counts(labels, predicted, len(names)).astype(int)
    shown = most_confused(counts, MAX_CLASSES)
    totals = counts.sum(axis=1)

    def cell(label, prediction):
        count = counts[label, prediction]
        fraction = count / max(1, totals[label])
        return f"{count:,}" if count else "·", {
            "style": f"--share: {fraction:.3f}" if count else None,
            "title": f"labeled {names[label]}, predicted {names[prediction]}: "
            f"{counted(count, 'row')}, {fraction:.1%} of the label",
        }

    inside = counts[np.ix_(shown, shown)]
    line = "Rows are labels, columns are predictions."
    if len(shown) < len(names):
        errors, total = (int(c.sum() - np.trace(c)) for c in (inside, counts))
        line += (
            f" The table has the {len(shown)} of {len(names)} classes with the most errors, with "
            f"{errors:,} of {total:,} errors between them."
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
    """Calibration of the probabilities of the predictions.

    Args:
        probabilities: Probability of each prediction, `(N,)`; a multilabel row has a prediction
            for each label.
        right: Whether each prediction is correct, bool `(N,)`.
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
    side = "over" if excess > 0 else "under"
    verdict = (
        f"{side}confident by {abs(excess):.3f}"
        if abs(excess) >= 5e-4
        else "neither over- nor underconfident on average"
    )
    cells = [
        [f"{b.low:.1f} to {b.high:.1f}", f"{b.rows:,}", figure(b.probability), figure(b.accuracy)]
        for b in bins
    ]
    return section(
        "Calibration",
        tag(
            "p",
            f"Expected calibration error {error:.3f}. The mean probability of the predictions is "
            f"{probabilities.mean():.3f} and their accuracy {right.mean():.3f}: the model is "
            f"{verdict}.",
        ),
        columns(
            tag("figure", chart.svg()),
            table(
                "Calibration", ["probability", "predictions", "mean probability", "accuracy"], cells
            ),
        ),
    )


def errors(names, actual, predicted, probabilities, confidence, rows):
    """The wrong predictions with the highest probabilities.

    Args:
        names: Names of the classes.
        actual, predicted: bool `(N, C)`.
        probabilities: `(N, C)`.
        confidence: Highest probability of a wrong prediction of each row, `(N,)`.
        rows: Their `Table`.
    """

    def described(classes, row):
        found = [
            join(tag("strong", isolated(names[c])), f" {probabilities[row, c]:.1%}")
            for c in np.flatnonzero(classes[row])
        ]
        return join([[", " if number else "", one] for number, one in enumerate(found)]) or "none"

    right = (actual == predicted).all(axis=1)
    items = [
        _row(
            rows,
            row,
            join(
                tag("span", described(predicted, row), class_="wrong"),
                ", labeled ",
                described(actual, row),
            ),
        )
        for row in most_confident_errors(confidence, right, MAX_EXAMPLES)
    ]
    wrong = int(np.sum(~right))
    line = f"Wrong predictions: {wrong:,} of {counted(len(right), 'row')}" + (
        f"; these are the {len(items)} with the highest probability." if wrong > len(items) else "."
    )
    return section(
        "Most confident errors", tag("p", line, class_="faint"), tag("ol", items, class_="rows")
    )


def _row(rows, row, description):
    texts = [rows.texts[row], *([rows.text_pairs[row]] if rows.text_pairs else [])]
    return tag(
        "li",
        tag("p", description, " · ", isolated(rows.where(row)), class_="meta"),
        [tag("blockquote", cut(text), dir="auto") for text in texts],
    )


def regression(labels, predictions, rows):
    """Two sections: a scatter plot, and the rows with the largest errors.

    Args:
        labels, predictions: Numbers `(N,)`.
        rows: Their `Table`.
    """
    drawn = np.unique(np.linspace(0, len(labels) - 1, MAX_POINTS).astype(int))
    ends = (min(labels.min(), predictions.min()), max(labels.max(), predictions.max()))
    chart = Chart("Predictions by label", ends, ends, ("label", "prediction"))
    chart.line(ends, ends, "dashed")
    chart.dots(labels[drawn], predictions[drawn], kind="point")
    line = (
        f"{len(drawn):,} of {len(labels):,} rows, evenly spaced."
        if len(drawn) < len(labels)
        else counted(len(labels), "row") + "."
    )
    distance = np.abs(predictions - labels)
    worst = np.argsort(-distance, kind="stable")[:MAX_EXAMPLES]
    items = [
        _row(
            rows,
            row,
            join(
                tag("span", figure(predictions[row]), class_="wrong"),
                ", labeled ",
                tag("strong", figure(labels[row])),
            ),
        )
        for row in worst
    ]
    return [
        section("Predictions", tag("figure", chart.svg(), tag("figcaption", line), class_="wide")),
        section("Largest errors", tag("ol", items, class_="rows")),
    ]
