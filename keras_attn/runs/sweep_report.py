"""The report of several runs: report.html."""

import urllib.parse

from keras_attn.io import gfile
from keras_attn.reports.page import join, section, table, tag
from keras_attn.reports.run_report import NAME, write_page
from keras_attn.reports.sections import figure, numbers


def write_runs_report(task, workdir, results, names, repeated):
    """Writes the report of a folder of several runs.

    Args:
        task: `keras_attn.tasks.contract.Task`.
        workdir: `Workdir` of all runs.
        results: Entries of its results.json; see `repeat`.
        names: Names of the metrics.
        repeated: Names of the averaged runs.

    Raises:
        UserError: If the report cannot be written.
    """

    def row(run):
        name, link = run["run"], f"{urllib.parse.quote(run['run'])}/{NAME}"
        if gfile.exists(workdir / f"{run['run']}/{NAME}"):
            name = tag("a", name, href=link)
        best = " · best" if run["run"] == results["best_run"] else ""
        return [
            join(name, best),
            f"{run['learning_rate']:g}",
            f"{run['batch_size']:,}",
            run["seed"],
            *("diverged" if "diverged" in run else figure(run[name]) for name in names),
        ]

    heads = ["run", "learning rate", "batch size", "seed", *names]
    means, halves, foot = {name: results[name] for name in names}, None, []
    seeds = "One seed: the variance over seeds is unknown."
    if len(repeated) > 1:
        halves = {name: results[f"{name}_interval"] for name in names}
        deviations = [figure(results[f"{name}_deviation"]) for name in names]
        foot = [[("standard deviation over seeds", {"colspan": 4}), *deviations]]
        seeds = (
            f"Means over {len(repeated)} seeds with 95 % confidence intervals: "
            f"{', '.join(repeated)}."
        )
    if results["diverged"]:
        seeds += f" Diverged seeds, not averaged: {results['diverged']}."
    best = f"{urllib.parse.quote(results['best_run'])}/{NAME}"
    write_page(
        workdir,
        f"{len(results['runs'])} runs",
        section(
            "Results",
            numbers(means, halves),
            tag("p", seeds),
            tag(
                "p",
                "The runs are selected and measured on the same validation rows, so the metrics of "
                "the best run have a selection bias. Evaluate it on a test set with "
                "finetune.evaluate.",
            ),
        ),
        section("Runs", table("Runs", heads, map(row, results["runs"]), foot)),
        *task.sections(results, best),
    )
