"""The page that a finetuning run leaves on its validation: report.html."""

import posixpath
import urllib.parse

import numpy as np
import tensorflow as tf

from keras_attn.counts import counted
from keras_attn.data.splits import shared_rows
from keras_attn.io.atomic_write import atomic_write
from keras_attn.reports.page import columns, isolated, join, page, section, table, tag
from keras_attn.saved_config import DEFAULTS
from keras_attn.tasks.classification import baseline
from keras_attn.tasks.classification import report_sections as sections
from keras_attn.tasks.classification.metrics import metrics_among
from keras_attn.tasks.classification.report_numbers import decisions, one_hot
from keras_attn.training.records import read_records
from keras_attn.workdir import flatten

NAME = "report.html"


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
            subtitle = counted(len(rows), "validation row") + " · " + (
                counted(len(names), "label, any number a row", "labels, any number a row")
                if kind == "multilabel" else counted(len(names), "class", "classes"))
        write_page(
            run.workdir, subtitle,
            section("Results", sections.numbers(found), beat, _notes(run, tables)), parts,
            sections.curves(read_records(run.workdir.path), next(iter(found))), errors,
            about_the_run(run, results, {
                "training rows": f"{len(tables['train']):,}",
                "validation rows": f"{len(tables['validation']):,}",
                "rows left out": f"{sum(tables['train'].skipped.values()):,}"}))
        run.say(run.workdir / NAME)
    run.meet()  # a worker that ended before would look lost to the chief


def _of_numbers(baselines):
    """What a regression has to beat."""
    return sections.errors_to_beat([
        ("this model", baselines.model),
        ("bag of bigrams, ridge regression", baselines.bag_of_bigrams),
        ("always the mean of training", baselines.constant)])


def _of_classes(baselines, tables, names, encoded, shares, kind):
    """What is to be beaten as a table, the sections on classes, and that on errors."""
    rows, several = tables["validation"], kind == "multilabel"
    actual, predicted, sure, right = decisions(encoded["validation"], shares, kind)
    if several:
        training, confused = encoded["train"] > 0, ""
    else:
        training = one_hot(encoded["train"], len(names))
        confused = sections.confusion(names, encoded["validation"], shares.argmax(axis=1))
    beat = sections.lines_to_beat([
        ("this model", baselines.model),
        ("bag of bigrams, logistic regression", baselines.bag_of_bigrams),
        (join("always ", isolated(baselines.constant_class), ", most frequent in training"),
         baselines.constant),
    ], len(rows))
    parts = [
        columns(sections.classes(names, actual, predicted, training.sum(axis=0), every=several),
                confused),
        sections.calibrated(sure.ravel(), right.ravel()),
    ]
    errors = sections.errors(names, actual, predicted, shares,
                             np.where(right, 0, sure).max(axis=1), rows)
    return beat, parts, errors


def write_runs_report(workdir, results, names, repeated):
    """Writes the report of a folder of several runs.

    Args:
        workdir: `Workdir`.
        results: As in its results.json, see `repeat`.
        names: Of the metrics.
        repeated: Names of the runs that the means are of.

    Raises:
        UserError: If it cannot be written.
    """
    def row(run):
        name, place = run["run"], f"{urllib.parse.quote(run['run'])}/{NAME}"
        if tf.io.gfile.exists(workdir / f"{run['run']}/{NAME}"):
            name = tag("a", name, href=place)
        mark = " · best" if run["run"] == results["best_run"] else ""
        return [join(name, mark), f"{run['learning_rate']:g}",
                f"{run['batch_size']:,}", run["seed"],
                *("diverged" if "diverged" in run else sections.figure(run[name])
                  for name in names)]

    heads = ["run", "learning rate", "batch size", "seed", *names]
    means, halves, foot = {name: results[name] for name in names}, None, []
    seeds = "One seed: nothing tells how much another would change."
    if len(repeated) > 1:
        halves = {name: results[f"{name}_interval"] for name in names}
        deviations = [sections.figure(results[f"{name}_deviation"]) for name in names]
        foot = [[("standard deviation over seeds", {"colspan": 4}), *deviations]]
        seeds = (f"Means of {len(repeated)} seeds and their 95 % intervals: "
                 f"{', '.join(repeated)}.")
    if results["diverged"]:
        seeds += f" Seeds that have diverged, and are left out: {results['diverged']}."
    best = f"{urllib.parse.quote(results['best_run'])}/{NAME}"
    write_page(
        workdir, f"{len(results['runs'])} runs",
        section("Results", sections.numbers(means, halves), tag("p", seeds),
                tag("p", "The validation rows that compare the runs also measure them, which "
                         "flatters the best: give finetune.evaluate other rows.")),
        section("Runs", table("Runs", heads, map(row, results["runs"]), foot)),
        sections.runs_to_beat(results), sections.mean_classes(results),
        section("Most sure, and wrong", tag(
            "p", tag("a", "The page of the best run", href=best),
            " has the rows that it is most sure and wrong about, confusions and calibration."))
        if "classes" in results else "",
    )


def write_page(workdir, subtitle, *parts):
    """Writes the report of a folder, of sections."""
    title = posixpath.basename(workdir.path) or workdir.path
    head = tag("header", tag("h1", title), tag("p", subtitle, class_="faint"))
    # One run at a time writes here: what a killed one left unfinished is written over.
    atomic_write(workdir / NAME, page(title, head, *parts), unfinished=workdir / f"{NAME}.tmp")




def _notes(run, tables):
    """What makes the numbers better than they are."""
    config, notes = run.config, []
    shared = shared_rows(tables["train"], tables["validation"])
    if shared:
        overlap = counted(shared, "validation row is a training row, too",
                          "validation rows are training rows, too")
        notes.append(f"{overlap}: the numbers say nothing about new texts.")
    if config.eval.metric or config.eval.patience:
        notes.append("The validation rows also chose the weights (eval.metric, eval.patience), "
                     "which flatters: give finetune.evaluate other rows.")
    if len(tables["train"]) > baseline.MOST_BASELINE_ROWS:
        notes.append(f"The bag of bigrams learns from {baseline.MOST_BASELINE_ROWS:,} of the "
                     f"{len(tables['train']):,} training rows, spread evenly.")
    return [tag("p", note, class_="faint") for note in notes]


def about_the_run(run, results, counts):
    """The section of fields and facts.

    Args:
        run: `Run`.
        results: As in results.json.
        counts: Dict of names and strings: of its data.
    """
    # The first is none of the fields: a run takes it from the classifier that it starts from.
    defaults = {"data.end_mark": True, **flatten(DEFAULTS[run.kind]().to_dict())}
    changed = [[name, str(value), str(defaults[name])]
               for name, value in sorted(flatten(run.resolved).items()) if value != defaults[name]]
    data = run.resolved["data"]
    facts = {
        **counts,
        "train.seed": run.resolved["train"]["seed"],
        "data.seed": "train.seed" if data["seed"] is None else data["seed"],
        "steps": f"{results['steps']:,}",
        **({"best step": f"{results['best_step']:,}"} if "best_step" in results else {}),
        "seconds of training": f"{results['seconds']:,.1f}",
        "examples a second": f"{results['examples_per_second']:,.1f}",
        **results["versions"],
        "SHA-256 of the weights": results["weights_sha256"],
        **{f"SHA-256 of {name}": value for name, value in results["data_sha256"].items()},
    }
    return sections.run_facts(changed, facts)
