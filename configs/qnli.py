r"""QNLI: does the sentence answer the question?

    python -m finetune --config=configs/qnli.py --pretrained=runs/mini --workdir=runs/qnli \
        --config.data.train=QNLI/train.tsv --config.data.validation=QNLI/dev.tsv

Without files the data are `tfds:glue/qnli`.
"""

from keras_attn.defaults import finetuning_defaults


def get_config():
    config = finetuning_defaults()
    config.data.task = "qnli"
    return config
