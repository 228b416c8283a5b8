r"""RTE: does the first text entail the second?

    python -m finetune --config=configs/rte.py --pretrained=runs/mini --workdir=runs/rte \
        --config.data.train=RTE/train.tsv --config.data.validation=RTE/dev.tsv

Without files the data are `tfds:glue/rte`.
"""

from keras_attn.defaults import finetuning_defaults


def get_config():
    config = finetuning_defaults()
    config.data.task = "rte"
    return config
