"""The page that a folder of several runs holds: report.html."""

import urllib.parse

import tensorflow as tf

from keras_attn.reports.page import join, section, table, tag
from keras_attn.reports.run_report import NAME, write_page
from keras_attn.reports.sections import figure, numbers


def write_runs_report(task, workdir, results, names, repeated):
    """Writes the report of a folder of several runs.

    Args:
        task: `keras_attn.tasks.contract.Task`.
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
        return [
            join(name, mark),
            f"{run['learning_rate']:g}",
            f"{run['batch_size']:,}",
            run["seed"],
            *("diverged" if "diverged" in run else figure(run[name]) for name in names),
        ]

    heads = ["run", "learning rate", "batch size", "seed", *names]
    means, halves, foot = {name: results[name] for name in names}, None, []
    seeds = "One seed: nothing tells how much another would change."
    if len(repeated) > 1:
        halves = {name: results[f"{name}_interval"] for name in names}
        deviations = [figure(results[f"{name}_deviation"]) for name in names]
        foot = [[("standard deviation over seeds", {"colspan": 4}), *deviations]]
        seeds = f"Means of {len(repeated)} seeds and their 95 % intervals: {', '.join(repeated)}."
    if results["diverged"]:
        seeds += f" Seeds that have diverged, and are left out: {results['diverged']}."
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
                "The validation rows that compare the runs also measure them, which "
                "flatters the best: give finetune.evaluate other rows.",
            ),
        ),
        section("Runs", table("Runs", heads, map(row, results["runs"]), foot)),
        *task.sections(results, best),
    )
