"""The page that a finetuning run leaves on its validation: report.html."""

import numpy as np

from keras_attn.counts import counted
from keras_attn.data.splits import count_shared_rows
from keras_attn.reports.page import columns, isolated, join, section, tag
from keras_attn.reports.run_report import NAME, about_the_run, write_page
from keras_attn.reports.sections import curves, numbers
from keras_attn.tasks.classification import baseline
from keras_attn.tasks.classification import report_sections as sections
from keras_attn.tasks.classification.report_numbers import decisions, one_hot
from keras_attn.tasks.finetuning.seed_statistics import metrics_among
from keras_attn.training.records import read_records


def write_report(run, results, baselines, tables, names, encoded, shares, kind):
    """Writes the report of a finished run (the chief does), and says where it is.

    Args:
        run: `Run`.
        results: As in results.json.
        baselines: `Baselines`, on the chief.
        tables: `Table` of each split, `train` and `validation`.
        names: Of the classes; none for regression.
        encoded: Labels of each split: class indices or numbers `(N,)`; of several labels `(N, C)`.
        shares, kind: Of the validation rows, see `probabilities`.

    Raises:
        UserError: If it cannot be written.
    """
    if run.chief:
        labels, rows, found = encoded["validation"], tables["validation"], metrics_among(results)
        if kind == "regression":
            beat, parts = _of_numbers(baselines), []
            errors = sections.regression(labels, shares[:, 0], rows)
            subtitle = counted(len(rows), "validation row") + " · regression"
        else:
            beat, parts, errors = _of_classes(baselines, tables, names, encoded, shares, kind)
            subtitle = (
                counted(len(rows), "validation row")
                + " · "
                + (
                    counted(len(names), "label, any number a row", "labels, any number a row")
                    if kind == "multilabel"
                    else counted(len(names), "class", "classes")
                )
            )
        write_page(
            run.workdir,
            subtitle,
            section("Results", numbers(found), beat, _notes(run, tables)),
            parts,
            curves(read_records(run.workdir.path), next(iter(found))),
            errors,
            about_the_run(
                run,
                results,
                {
                    "training rows": f"{len(tables['train']):,}",
                    "validation rows": f"{len(tables['validation']):,}",
                    "rows left out": f"{sum(tables['train'].skipped.values()):,}",
                },
            ),
        )
        run.say(run.workdir / NAME)
    run.meet()  # a worker that ended before would look lost to the chief


def _of_numbers(baselines):
    """What a regression has to beat."""
    return sections.errors_to_beat(
        [
            ("this model", baselines.model),
            ("bag of bigrams, ridge regression", baselines.bag_of_bigrams),
            ("always the mean of training", baselines.constant),
        ]
    )


def _of_classes(baselines, tables, names, encoded, shares, kind):
    """What is to be beaten as a table, the sections on classes, and that on errors."""
    rows, several = tables["validation"], kind == "multilabel"
    actual, predicted, sure, right = decisions(encoded["validation"], shares, kind)
    if several:
        training, confused = encoded["train"] > 0, ""
    else:
        training = one_hot(encoded["train"], len(names))
        confused = sections.confusion(names, encoded["validation"], shares.argmax(axis=1))
    beat = sections.lines_to_beat(
        [
            ("this model", baselines.model),
            ("bag of bigrams, logistic regression", baselines.bag_of_bigrams),
            (
                join("always ", isolated(baselines.constant_class), ", most frequent in training"),
                baselines.constant,
            ),
        ],
        len(rows),
    )
    parts = [
        columns(
            sections.classes(names, actual, predicted, training.sum(axis=0), every=several),
            confused,
        ),
        sections.calibrated(sure.ravel(), right.ravel()),
    ]
    errors = sections.errors(
        names, actual, predicted, shares, np.where(right, 0, sure).max(axis=1), rows
    )
    return beat, parts, errors


def _notes(run, tables):
    """What makes the numbers better than they are."""
    config, notes = run.config, []
    shared = count_shared_rows(tables["train"], tables["validation"])
    if shared:
        overlap = counted(
            shared,
            "validation row is a training row, too",
            "validation rows are training rows, too",
        )
        notes.append(f"{overlap}: the numbers say nothing about new texts.")
    if config.eval.metric or config.eval.patience:
        notes.append(
            "The validation rows also chose the weights (eval.metric, eval.patience), "
            "which flatters: give finetune.evaluate other rows."
        )
    if len(tables["train"]) > baseline.MOST_BASELINE_ROWS:
        notes.append(
            f"The bag of bigrams learns from {baseline.MOST_BASELINE_ROWS:,} of the "
            f"{len(tables['train']):,} training rows, spread evenly."
        )
    return [tag("p", note, class_="faint") for note in notes]
