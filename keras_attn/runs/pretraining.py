"""Pretraining: text in, a workdir with a model of it out."""

from keras_attn.runs.run import run_task


def pretrain(config, workdir=None, pretrained=None, *, dry_run=False, engine="tensorflow",
             strategy="auto", virtual_devices=0, tpu=None):
    """Pretrains a BERT, which guesses hidden words, a GPT-2, which tells the next one, or an XLNet,
    which tells words in any order.

    The same call with the same config goes on from the newest checkpoint.

    Args:
        config: ConfigDict of `pretraining_defaults()`, `language_modeling_defaults()` or
            `permutation_modeling_defaults()`, as the files in configs/ make.
        workdir: Folder for all results; replaces `config.workdir`.
        pretrained: Where to take the first weights from, a workdir or what
            `keras_attn.convert` reads; replaces `config.pretrained`.
        dry_run: Only measure and print what the run will cost.
        engine: Name of the engine, one of `keras_attn.training.engines.ENGINES`.
        strategy, virtual_devices, tpu: See `make_strategy`.

    Returns:
        Dict, as in results.json: final validation metrics, steps, speed, versions, hashes.

    Raises:
        UserError: For what the user can mend: fields, files, diverged losses.
        Stopped: After SIGTERM or Ctrl-C, when everything is saved.
    """
    return run_task(config, workdir, pretrained, dry_run, default_task="masked_lm", name=engine,
                    strategy=strategy, virtual_devices=virtual_devices, tpu=tpu)
