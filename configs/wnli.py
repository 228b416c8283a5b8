r"""WNLI: does the second sentence follow when the pronoun of the first is resolved?

    python -m finetune --config=configs/wnli.py --pretrained=runs/mini --workdir=runs/wnli \
        --config.data.train=WNLI/train.tsv --config.data.validation=WNLI/dev.tsv

Without files the data are `tfds:glue/wnli`.
"""

from keras_attn.defaults import finetuning_defaults


def get_config():
    config = finetuning_defaults()
    config.data.task = "wnli"
    return config
