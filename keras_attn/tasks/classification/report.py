"""report.html of a classifier: the predictions for the validation split."""

import numpy as np

from keras_attn.counts import counted
from keras_attn.data.splits import count_shared_rows
from keras_attn.reports.page import columns, isolated, join, section, tag
from keras_attn.reports.run_report import NAME, about_the_run, write_page
from keras_attn.reports.sections import curves, numbers
from keras_attn.tasks.classification import baseline
from keras_attn.tasks.classification import report_sections as sections
from keras_attn.tasks.classification.baseline_tables import accuracy_table, error_table
from keras_attn.tasks.classification.report_numbers import decisions, one_hot
from keras_attn.tasks.finetuning.seed_statistics import metrics_among
from keras_attn.training.records import read_records


def write_report(run, results, baselines, tables, names, encoded, predicted, kind):
    """Writes the report of a finished run on the chief, and prints its path.

    Args:
        run: `Run`.
        results: As in results.json.
        baselines: `Baselines`, on the chief.
        tables: `Table` of each split, `train` and `validation`.
        names: Names of the classes; () for regression.
        encoded: Labels of each split; see `encode_labels`.
        predicted, kind: Predictions for the validation split; see `probabilities`.

    Raises:
        UserError: If it cannot be written.
    """
    if run.chief:
        labels, rows, found = encoded["validation"], tables["validation"], metrics_among(results)
        if kind == "regression":
            compared, middle = _compare_errors(baselines), []
            errors = sections.regression(labels, predicted[:, 0], rows)
            subtitle = counted(len(rows), "validation row") + " · regression"
        else:
            compared = _compare_accuracies(baselines, len(rows))
            middle, errors = _classes(tables, names, encoded, predicted, kind)
            subtitle = (
                counted(len(rows), "validation row")
                + " · "
                + (
                    counted(len(names), "label") + " · multilabel"
                    if kind == "multilabel"
                    else counted(len(names), "class", "classes")
                )
            )
        write_page(
            run.workdir,
            subtitle,
            section("Results", numbers(found), compared, _notes(run, tables)),
            middle,
            curves(read_records(run.workdir.path), next(iter(found))),
            errors,
            about_the_run(
                run,
                results,
                {
                    "training rows": f"{len(tables['train']):,}",
                    "validation rows": f"{len(tables['validation']):,}",
                    "skipped rows": f"{sum(tables['train'].skipped.values()):,}",
                },
            ),
        )
        run.say(run.workdir / NAME)
    run.barrier()  # the chief would report a worker that ends earlier as lost


def _compare_errors(baselines):
    return error_table(
        [
            ("this model", baselines.model),
            ("bag of bigrams, ridge regression", baselines.bag_of_bigrams),
            ("always the mean training label", baselines.constant),
        ]
    )


def _compare_accuracies(baselines, rows):
    constant = join("always ", isolated(baselines.constant_class), ", most frequent in training")
    return accuracy_table(
        [
            ("this model", baselines.model),
            ("bag of bigrams, logistic regression", baselines.bag_of_bigrams),
            (constant, baselines.constant),
        ],
        rows,
    )


def _classes(tables, names, encoded, predicted, kind):
    """Returns the sections on classes, and the section on errors."""
    several = kind == "multilabel"
    actual, chosen, confidence, right = decisions(encoded["validation"], predicted, kind)
    if several:
        training, confused = encoded["train"] > 0, ""
    else:
        training = one_hot(encoded["train"], len(names))
        confused = sections.confusion(names, encoded["validation"], predicted.argmax(axis=1))
    middle = [
        columns(
            sections.classes(names, actual, chosen, training.sum(axis=0), every=several),
            confused,
        ),
        sections.calibrated(confidence.ravel(), right.ravel()),
    ]
    wrong = np.where(right, 0, confidence).max(axis=1)
    errors = sections.errors(names, actual, chosen, predicted, wrong, tables["validation"])
    return middle, errors


def _notes(run, tables):
    """Returns notes on what biases the metrics."""
    config, notes = run.config, []
    shared = count_shared_rows(tables["train"], tables["validation"])
    if shared:
        overlap = counted(
            shared,
            "validation row is also a training row",
            "validation rows are also training rows",
        )
        notes.append(f"{overlap}: the metrics overestimate the performance on new texts.")
    if config.eval.metric or config.eval.patience:
        notes.append(
            "The weights were selected on the validation split (eval.metric, eval.patience), so "
            "the metrics have a selection bias: run finetune.evaluate on other rows."
        )
    if len(tables["train"]) > baseline.MOST_BASELINE_ROWS:
        notes.append(
            f"The bag of bigrams is trained on {baseline.MOST_BASELINE_ROWS:,} of the "
            f"{len(tables['train']):,} training rows, evenly spaced."
        )
    return [tag("p", note, class_="faint") for note in notes]
