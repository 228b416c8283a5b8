"""Finetuning: labelled text in, a workdir with a model of the task out."""

from keras_attn.runs.sweep import is_repeated, repeat
from keras_attn.tasks.classification.task import finetune_classifier
from keras_attn.tasks.span_qa.examples import TASK as READING
from keras_attn.tasks.span_qa.task import finetune_reader
from keras_attn.tasks.translation.task import train_translator


def finetune(config, workdir=None, pretrained=None, *, dry_run=False, strategy="auto",
             virtual_devices=0, tpu=None):
    """Finetunes a classifier or a reader, or trains a translator.

    The same call with the same config goes on from the newest checkpoint.

    Args:
        config: ConfigDict of `finetuning_defaults()`, as configs/classify.py makes.
        workdir: Folder for all results; replaces `config.workdir`.
        pretrained: Where to take the first weights from, a workdir or what
            `keras_attn.convert` reads; replaces `config.pretrained`.
        dry_run: Only measure and print what the run will cost.
        strategy, virtual_devices, tpu: See `make_strategy`.

    Returns:
        Dict, as in results.json: final validation metrics (`accuracy`, `f1`,
        or those of the task), steps, speed, versions, hashes. Of several runs
        (`train.seeds`, `search`) see `repeat`.

    Raises:
        UserError: For what the user can mend: fields, files, diverged losses.
        Stopped: After SIGTERM or Ctrl-C, when everything is saved.
    """
    places = {"strategy": strategy, "virtual_devices": virtual_devices, "tpu": tpu}
    once = {READING: finetune_reader, "translation": train_translator}.get(
        config.data.get("task"), finetune_classifier)
    if is_repeated(config):
        return repeat(once, config, workdir, pretrained, dry_run, **places)
    return once(config, workdir, pretrained, dry_run, **places)
