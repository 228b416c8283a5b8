"""Pretrains an encoder or a language model: BERT, GPT-2, XLNet or another family.

    python -m pretrain --workdir=runs/demo
    python -m pretrain --config=bert_mini --workdir=runs/mini \\
        --config.data.train='books/train/*.txt.gz' --config.data.validation='books/valid/*.txt.gz'
    python -m pretrain --pretrained=runs/mini --workdir=runs/mini512 --config.data.length=512
    python -m pretrain --config=gpt2_small --workdir=runs/gpt2 --config.data.train='books/*.gz'
    python -m pretrain --config=xlnet_small --workdir=runs/xlnet --config.data.train='books/*.gz'

The same command resumes an interrupted run from its last checkpoint.
"""

from keras_attn.cli.command_line import define_run_flags, run_command, run_options


def main():
    from keras_attn.runs.run_task import pretrain

    pretrain(**run_options())


def command():
    """Entry point of `python -m pretrain` and `keras-attn-pretrain`."""
    run_command(main, __doc__, "pretrain", define_run_flags)


if __name__ == "__main__":
    command()
