"""Sweeps: runs of one config with several seeds, learning rates and batch sizes."""

import gc
import itertools
import math
import os
import re

from keras_attn.defaults import declared
from keras_attn.errors import DivergedError, UserError
from keras_attn.registry import DEFAULT_TASKS, TASKS, task_of_config
from keras_attn.reports.run_report import NAME
from keras_attn.runs.sweep_report import write_runs_report
from keras_attn.saved_config import check_same, fields_to_keep
from keras_attn.tasks.finetuning.seed_statistics import metric_lines, metrics_among, over_seeds
from keras_attn.training.best import score
from keras_attn.workdir import Workdir, check_run_name, run_folder


def is_repeated(config):
    """Returns whether a finetuning config describes more than one run."""
    return config.train.get("seeds", 1) != 1 or any(config.get("search", {}).values())


def repeat(run_once, config, workdir, pretrained, dry_run):
    """Searches learning rates and batch sizes with one seed, and runs the best with all seeds.

    Each run has its own folder in the workdir, and is resumed if it was interrupted. All runs have
    the same training and validation rows. The first seed selects the hyperparameters and is also
    one of the averaged seeds, so the mean has a small selection bias.

    Args:
        run_once: Function that executes one run; see `run_task`.
        config, workdir, pretrained, dry_run: See `finetune`.

    Returns:
        Dict with the entries of results.json: the mean of each metric over the seeds;
        `<metric>_deviation`, its standard deviation; `<metric>_interval`, half the width of the
        95 % confidence interval of the mean; `runs`, a list with the hyperparameters, folder and
        metrics of each run; `best_run`, a folder; `tried`, the number of settings in the search;
        `diverged`, the number of seeds that diverged and are not averaged; and the result of
        `Task.combine`.

    Raises:
        UserError: See `finetune`; or if a field of `search` is not a list of numbers.
    """
    task = task_of_config(config, DEFAULT_TASKS["finetune"], "finetune")
    known = declared(task, config.get("model", {}).get("family"))
    for name in ("train.seeds", "train.seed"):
        value = config.train[name.removeprefix("train.")]
        if value is None:
            raise UserError(f"{name} must have a value. Received: {name}=None")
        known[name].check(name, value)
    rates = _numbers(config, "learning_rates", float)
    sizes = _numbers(config, "batch_sizes", int) or [config.train.batch_size]
    first = config.train.seed
    seeds = range(first, first + config.train.seeds)
    shared = _shared_config(config)
    if dry_run:
        several = max(1, len(rates)) * len(sizes) + len(seeds) - 1
        print(f"estimate for one of {several} runs:", flush=True)
        shared.train.batch_size = max(sizes)
        return run_once(shared, workdir, pretrained, True)
    runs = _Runs(task, known, run_once, shared, workdir, pretrained)
    rates = rates or [runs.config.train.learning_rate]  # None: each run chooses its rate
    tried = {setting: runs.run(*setting, first) for setting in itertools.product(rates, sizes)}
    best = max(tried, key=lambda setting: runs.score(tried[setting]))
    repeated = list(tried.values())
    if len(tried) == 1 or "diverged" not in tried[best]:
        repeated = [runs.run(*best, seed) for seed in seeds]
    if all("diverged" in run for run in repeated):
        raise UserError(
            "All runs diverged. Lower search.learning_rates or "
            f"train.learning_rate. Received: {', '.join(map(str, rates))}"
        )
    return runs.finish(tried, repeated)


def _shared_config(config):
    """Returns the config of a single run."""
    shared = config.copy_and_resolve_references()
    shared.search.update(learning_rates=None, batch_sizes=None)
    shared.train.seeds = 1
    if shared.data.seed is None:
        shared.data.seed = shared.train.seed
    return shared


class _Runs:
    """The runs of a folder, which is created, or must have the same settings."""

    def __init__(self, task, known, run_once, config, workdir, pretrained):
        self.task, self.config, self.run_once = task, config, run_once
        self.pretrained = pretrained and os.fspath(pretrained)
        self.found, self.results = {}, {}  # by the name of a run
        self.workdir = Workdir(workdir or config.workdir)
        self.workdir.create()
        if self.workdir.read_json("config.json") is not None:
            raise UserError(
                "--workdir of several runs must not contain a single run. Choose another "
                f"--workdir. Received: workdir={self.workdir.path}"
            )
        before = self.workdir.read_json("settings.json")
        if before is not None:
            self.config.update_from_flattened_dict(
                fields_to_keep(before, self.config.to_dict(), known)
            )
        self.settings = _settings(self.config, self.pretrained)
        if before is not None:  # results.json describes runs with the same settings
            check_same(before, self.settings, known)

    def run(self, rate, size, seed):
        """Executes a run once, and returns its folder, hyperparameters and metrics."""
        name = f"rate-{'default' if rate is None else repr(rate)}-batch-{size}-seed-{seed}"
        if name not in self.found:
            print(f"\n{name}", flush=True)
            self.config.train.update(learning_rate=rate, batch_size=size, seed=seed)
            try:
                results = self.run_once(
                    self.config, self.workdir / name, self.pretrained, False, compared=True
                )
                metrics, self.results[name] = metrics_among(results), results
            except DivergedError as error:
                print(error, flush=True)
                metrics = {}
            self.workdir.write_json("settings.json", self.settings)
            gc.collect()  # steps, which hold weights, and their functions are reference cycles
            self.found[name] = {
                "run": name,
                "learning_rate": self._rate_of(name, rate),
                "batch_size": size,
                "seed": seed,
                **metrics,
                **({} if metrics else {"diverged": True}),
            }
        return self.found[name]

    def _rate_of(self, name, rate):
        """Returns the learning rate of a run; with `rate=None` the run has chosen it."""
        saved = Workdir(self.workdir / name).read_config() if rate is None else None
        return saved["config"]["train"]["learning_rate"] if saved else rate

    @property
    def names(self):
        """Names of the metrics."""
        return list(metrics_among(next(iter(self.results.values()))))

    @property
    def metric(self):
        """Name of the metric that compares runs."""
        return self.config.eval.metric or self.names[0]

    def score(self, run):
        """Returns the score of a run; the highest is the best."""
        if "diverged" in run:
            return -math.inf
        return score(run[self.metric], TASKS.fields(self.task).prefers_lower(self.metric))

    def finish(self, tried, repeated):
        """Writes and prints the results, and returns them."""
        lost = [run["seed"] for run in repeated if "diverged" in run]
        repeated = [run for run in repeated if "diverged" not in run]
        results = over_seeds(repeated, self.names)
        best = max(repeated, key=self.score)["run"]
        results.update(
            best_run=best,
            tried=len(tried),
            diverged=len(lost),
            runs=list(self.found.values()),
            **TASKS[self.task].combine([self.results[run["run"]] for run in repeated]),
        )
        self.workdir.write_json("results.json", results)
        if self.config.eval.report:
            write_runs_report(
                TASKS[self.task],
                self.workdir,
                results,
                self.names,
                [run["run"] for run in repeated],
            )
        print("\n" + _table(self.found.values(), self.names))
        for line in metric_lines(results, self.names, len(repeated)):
            print(line)
        if lost:
            print(f"diverged seeds, not averaged: {', '.join(map(str, lost))}")
        if self.config.eval.report:
            print(self.workdir / NAME)
        return results


def _settings(config, pretrained=None):
    """Returns the fields that all runs of a folder share."""
    fields = config.to_dict()
    del fields["workdir"], fields["search"], fields["train"]["seeds"]
    return {**fields, "pretrained": pretrained or config.pretrained}


def seeds_of(folder):
    """Returns the runs over which the results of a folder of several runs are averaged.

    Returns:
        Entries of `runs` in results.json; [] for other folders.
    """
    workdir = Workdir(folder)
    if run_folder(folder) == folder:  # also checks the name of the best run
        return []
    results = workdir.read_json("results.json")
    try:
        runs = {run["run"]: run for run in results.get("runs", ())}
        best = runs.get(results["best_run"])
        found = [
            run
            for run in runs.values()
            if best
            and "diverged" not in run
            and all(run[name] == best[name] for name in ("learning_rate", "batch_size"))
        ]
        if any(type(run["seed"]) is not int for run in found):
            raise TypeError
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{workdir / 'results.json'} does not describe several runs. Restore the original file"
        ) from error
    for run in found:
        check_run_name(run["run"], workdir / "results.json")
    return found


def _table(runs, names):
    heads = ["run", *names]
    rows = [
        [run["run"], *("diverged" if "diverged" in run else f"{run[name]:.4f}" for name in names)]
        for run in runs
    ]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return "\n".join(
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in [heads, *rows]
    )


def _numbers(config, name, kind):
    """Parses a comma-separated list of numbers; [] if the field is unset."""
    text = config.search[name]
    words = re.split(r"[\s,]+", text.strip()) if text else []
    try:
        found = [kind(word) for word in words]
    except ValueError:
        found = []
    if any(not number > 0 for number in found) or len(found) < len(words):
        raise UserError(
            f"search.{name} must be a comma-separated list of numbers above 0. "
            f"Received: search.{name}={text}"
        )
    return list(dict.fromkeys(found))
