"""Finetuning: labelled text in, a workdir with a model of the task out."""

import functools

from keras_attn.runs.run import run_task
from keras_attn.runs.sweep import is_repeated, repeat


def finetune(config, workdir=None, pretrained=None, *, dry_run=False, engine="tensorflow",
             strategy="auto", virtual_devices=0, tpu=None):
    """Finetunes a classifier or a reader, or trains a translator.

    The same call with the same config goes on from the newest checkpoint.

    Args:
        config: ConfigDict of `finetuning_defaults()`, as configs/classify.py makes.
        workdir: Folder for all results; replaces `config.workdir`.
        pretrained: Where to take the first weights from, a workdir or what
            `keras_attn.convert` reads; replaces `config.pretrained`.
        dry_run: Only measure and print what the run will cost.
        engine: Name of the engine, one of `keras_attn.training.engines.ENGINES`.
        strategy, virtual_devices, tpu: See `make_strategy`.

    Returns:
        Dict, as in results.json: final validation metrics (`accuracy`, `f1`,
        or those of the task), steps, speed, versions, hashes. Of several runs
        (`train.seeds`, `search`) see `repeat`.

    Raises:
        UserError: For what the user can mend: fields, files, diverged losses.
        Stopped: After SIGTERM or Ctrl-C, when everything is saved.
    """
    once = functools.partial(run_task, default_task="classification", name=engine)
    run = functools.partial(repeat, once) if is_repeated(config) else once
    return run(config, workdir, pretrained, dry_run, strategy=strategy,
               virtual_devices=virtual_devices, tpu=tpu)
