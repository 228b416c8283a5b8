"""Pretraining and finetuning: the steps of every run, whatever its family, task and engine."""

import functools
import os
from typing import Any

from ml_collections import ConfigDict

from keras_attn.convert import family_name
from keras_attn.registry import DEFAULT_TASKS, FAMILIES, TASKS, task_of_config
from keras_attn.runs.run import Run
from keras_attn.runs.sweep import is_repeated, repeat
from keras_attn.training.engines import check_several_runs


def pretrain(
    config: ConfigDict,
    workdir: str | os.PathLike[str] | None = None,
    pretrained: str | os.PathLike[str] | None = None,
    *,
    dry_run: bool = False,
    engine: str = "tensorflow",
    **options: Any,
) -> dict[str, Any]:
    """Pretrains a model on text without labels: a BERT, a GPT-2 or an XLNet.

    The same call with the same config resumes the run from its newest checkpoint.

    Args:
        config: ConfigDict of `pretraining_defaults()`, `language_modeling_defaults()` or
            `permutation_modeling_defaults()`, as the files in configs/ make.
        workdir: Folder for all results; replaces `config.workdir`.
        pretrained: Where to take the initial weights from, a workdir or what `keras_attn.convert`
            reads; replaces `config.pretrained`.
        dry_run: Whether to only measure and print what the run will cost.
        engine: Name of the engine, one of `keras_attn.registry.ENGINES`.
        **options: Options of the engine. "tensorflow" takes `strategy`, "auto", "one_device",
            "mirrored", "multi_worker" or "tpu"; `virtual_devices`, into how many devices to split
            the CPU; and `tpu`, the address of the TPU.

    Returns:
        Dict, as in results.json: final validation metrics, steps, speed, versions, hashes.

    Raises:
        UserError: If the user can fix it: fields, files, diverged losses.
        Stopped: After SIGTERM or Ctrl-C, when everything is saved.
    """
    return run_task(
        config, workdir, pretrained, dry_run, command="pretrain", engine={"name": engine, **options}
    )


def finetune(
    config: ConfigDict,
    workdir: str | os.PathLike[str] | None = None,
    pretrained: str | os.PathLike[str] | None = None,
    *,
    dry_run: bool = False,
    engine: str = "tensorflow",
    **options: Any,
) -> dict[str, Any]:
    """Finetunes a model on labeled data: classification, regression, question answering; or trains
    a model to translate.

    The same call with the same config resumes the run from its newest checkpoint.

    Args:
        config: ConfigDict of `finetuning_defaults()`, as configs/classify.py makes, or of
            `translation_defaults()`.
        workdir: See `pretrain`.
        pretrained: See `pretrain`.
        dry_run: See `pretrain`.
        engine: See `pretrain`.
        **options: See `pretrain`.

    Returns:
        Dict, as in results.json: final validation metrics (`accuracy`, `f1`, or those of the
        task), steps, speed, versions, hashes. Of several runs (`train.seeds`, `search`) see
        `repeat`.

    Raises:
        UserError: If the user can fix it: fields, files, diverged losses.
        Stopped: After SIGTERM or Ctrl-C, when everything is saved.
    """
    run = functools.partial(run_task, command="finetune", engine={"name": engine, **options})
    if is_repeated(config):
        check_several_runs(engine, **options)
        run = functools.partial(repeat, run)
    return run(config, workdir, pretrained, dry_run)


def run_task(config, workdir, pretrained, dry_run, *, command, engine, compared=False):
    """Runs what a config asks for, from its data to its results.

    Args:
        config, workdir, pretrained, dry_run: See `keras_attn.pretrain`.
        command: "pretrain" or "finetune", whose tasks `data.task` may name.
        engine: Arguments of `make_engine`.
        compared: Whether the run is one of several.

    Returns:
        Dict, as in results.json; of a dry run what `dry_run.measure` returns.
    """
    workdir = workdir or config.get("workdir")
    pretrained = pretrained or config.get("pretrained")
    task = task_of_config(config, DEFAULT_TASKS[command], command)
    family = _family_of(task, config, workdir, pretrained)
    run = Run(TASKS[task], FAMILIES[family], config, workdir, pretrained, dry_run, compared, engine)
    with run.locked():
        plan = run.task.plan(run)
        run.start(plan.architecture, plan.heads, plan.hashes)
        results = run.train(plan)
        if plan.finish and not dry_run:
            plan.finish(results)
        return results


def _family_of(task, config, workdir, pretrained):
    """Name of the family of a run: that of the config, else of what it resumes or starts from."""
    named = config.get("model", {}).get("family")
    if named is None:
        held = (family_name(folder) for folder in (workdir, pretrained) if folder)
        named = next(
            (name for name in held if name and FAMILIES[name].supports(task)),
            TASKS.fields(task).family,
        )
    FAMILIES[named].model_class(task)  # raises if there is none
    return named
