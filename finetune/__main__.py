"""Trains a model on labeled data: finetuning, or translation from random weights.

    python -m finetune --config=sst2 --pretrained=runs/mini --workdir=runs/sst2 \\
        --config.data.train=SST-2/train.tsv --config.data.validation=SST-2/dev.tsv
    python -m finetune --config=classify --pretrained=runs/mini --workdir=runs/mine \\
        --config.data.train=train.csv --config.data.validation=valid.csv \\
        --config.data.text=review --config.data.label=stars
    python -m finetune --config=squad --pretrained=runs/mini --workdir=runs/squad \\
        --config.data.train=train-v2.0.json --config.data.validation=dev-v2.0.json
    python -m finetune --config=multi30k --workdir=runs/de \\
        --config.data.train.source=train.en --config.data.train.target=train.de \\
        --config.data.validation.source=val.en --config.data.validation.target=val.de

The same command resumes an interrupted run from its last checkpoint.
"""

from keras_attn.cli.command_line import define_run_flags, run_command, run_options


def main():
    from keras_attn.runs.run_task import finetune

    finetune(**run_options())


def command():
    """Entry point of `python -m finetune` and `keras-attn-finetune`."""
    run_command(main, __doc__, "classify", define_run_flags)


if __name__ == "__main__":
    command()
