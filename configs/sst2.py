r"""SST-2: is a phrase from a film review negative or positive?

    python -m finetune --config=configs/sst2.py --pretrained=runs/mini --workdir=runs/sst2 \
        --config.data.train=SST-2/train.tsv --config.data.validation=SST-2/dev.tsv

Without files the data are `tfds:glue/sst2`.
"""

from keras_attn.defaults import finetuning_defaults


def get_config():
    config = finetuning_defaults()
    config.data.task = "sst2"
    return config
