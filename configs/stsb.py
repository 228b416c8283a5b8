r"""STS-B: how similar are two sentences, from 0 to 5?

    python -m finetune --config=configs/stsb.py --pretrained=runs/mini --workdir=runs/stsb \
        --config.data.train=STS-B/train.tsv --config.data.validation=STS-B/dev.tsv

Without files the data are `tfds:glue/stsb`.
"""

from keras_attn.defaults import finetuning_defaults


def get_config():
    config = finetuning_defaults()
    config.data.task = "stsb"
    return config
