r"""MRPC: do two sentences from the news say the same?

    python -m finetune --config=configs/mrpc.py --pretrained=runs/mini --workdir=runs/mrpc \
        --config.data.train=MRPC/train.tsv --config.data.validation=MRPC/dev.tsv

Without files the data are `tfds:glue/mrpc`.
"""

from keras_attn.defaults import finetuning_defaults


def get_config():
    config = finetuning_defaults()
    config.data.task = "mrpc"
    return config
