"""Pretraining and finetuning: the steps of every run, for any family, task and engine."""

import functools
import os
from typing import Any

from ml_collections import ConfigDict

from keras_attn.convert import family_name
from keras_attn.registry import DEFAULT_ENGINE, DEFAULT_TASKS, FAMILIES, TASKS, task_of_config
from keras_attn.runs.run import open_run
from keras_attn.runs.sweep import is_repeated, repeat
from keras_attn.runs.train import train
from keras_attn.training.engines import check_several_runs


def pretrain(
    config: ConfigDict,
    workdir: str | os.PathLike[str] | None = None,
    pretrained: str | os.PathLike[str] | None = None,
    *,
    dry_run: bool = False,
    engine: str = DEFAULT_ENGINE,
    **options: Any,
) -> dict[str, Any]:
    """Pretrains a model (BERT, GPT-2, XLNet or another family) on unlabeled text.

    The same call with the same config resumes the run from its newest checkpoint.

    Args:
        config: ConfigDict, such as the result of `pretraining_defaults()`,
            `language_modeling_defaults()` or `permutation_modeling_defaults()`.
        workdir: Working directory, for all results; replaces `config.workdir`.
        pretrained: Initial weights: a workdir, or a checkpoint that `keras_attn.convert` supports;
            replaces `config.pretrained`.
        dry_run: Whether to only measure and print an estimate of the cost of the run.
        engine: Name of the engine, one of `keras_attn.registry.ENGINES`.
        **options: Options of the engine, which `python -m pretrain --engine=NAME --help` lists;
            for "tensorflow", for example, `strategy="one_device"`.

    Returns:
        Dict with the entries of results.json: final validation metrics, steps, speed, versions,
        hashes.

    Raises:
        UserError: For invalid fields or files, or if the loss diverges.
        Stopped: After SIGTERM or Ctrl-C, once a checkpoint is saved.
    """
    return run_task(
        config,
        workdir,
        pretrained,
        dry_run,
        command="pretrain",
        engine_options={"name": engine, **options},
    )


def finetune(
    config: ConfigDict,
    workdir: str | os.PathLike[str] | None = None,
    pretrained: str | os.PathLike[str] | None = None,
    *,
    dry_run: bool = False,
    engine: str = DEFAULT_ENGINE,
    **options: Any,
) -> dict[str, Any]:
    """Trains a model on labeled data, for the task that `config.data.task` names.

    The same call with the same config resumes the run from its newest checkpoint.

    Args:
        config: ConfigDict, such as the result of `finetuning_defaults()` or
            `translation_defaults()`.
        workdir: See `pretrain`.
        pretrained: See `pretrain`.
        dry_run: See `pretrain`.
        engine: See `pretrain`.
        **options: See `pretrain`.

    Returns:
        Dict with the entries of results.json: final validation metrics of the task, steps, speed,
        versions, hashes. For several runs (`train.seeds`, `search`), see `repeat`.

    Raises:
        UserError: See `pretrain`.
        Stopped: See `pretrain`.
    """
    engine_options = {"name": engine, **options}
    run = functools.partial(run_task, command="finetune", engine_options=engine_options)
    if is_repeated(config):
        check_several_runs(engine, **options)
        run = functools.partial(repeat, run)
    return run(config, workdir, pretrained, dry_run)


def run_task(config, workdir, pretrained, dry_run, *, command, engine_options, compared=False):
    """Executes one run, from the config to the results.

    Args:
        config, workdir, pretrained, dry_run: See `keras_attn.pretrain`.
        command: "pretrain" or "finetune"; `data.task` names one of its tasks.
        engine_options: Arguments of `make_engine`.
        compared: Whether the run is one of several.

    Returns:
        Dict with the entries of results.json; for a dry run the result of `dry_run.measure`.
    """
    workdir = workdir or config.get("workdir")
    pretrained = pretrained or config.get("pretrained")
    task = task_of_config(config, DEFAULT_TASKS[command], command)
    family = _family_of(task, config, workdir, pretrained)
    with open_run(
        TASKS[task],
        FAMILIES[family],
        config,
        workdir=workdir,
        pretrained=pretrained,
        dry_run=dry_run,
        compared=compared,
        engine_options=engine_options,
    ) as run:
        plan = run.task.plan(run)
        hashes = run.start(plan.architecture, plan.heads, plan.hashes)
        results = train(run, plan, hashes)
        if plan.finish and not dry_run:
            plan.finish(results)
        return results


def _family_of(task, config, workdir, pretrained):
    """Returns the family of the config, else of the resumed run or of `pretrained`, else the
    default family of the task."""
    name = config.get("model", {}).get("family")
    if name is None:
        found = (family_name(folder) for folder in (workdir, pretrained) if folder)
        name = next(
            (name for name in found if name and FAMILIES[name].supports(task)),
            TASKS.fields(task).family,
        )
    FAMILIES[name].model_class(task)  # raises if the family does not support the task
    return name
