r"""QQP: do two questions ask the same?

    python -m finetune --config=configs/qqp.py --pretrained=runs/mini --workdir=runs/qqp \
        --config.data.train=QQP/train.tsv --config.data.validation=QQP/dev.tsv

Without files the data are `tfds:glue/qqp`.
"""

from keras_attn.defaults import finetuning_defaults


def get_config():
    config = finetuning_defaults()
    config.data.task = "qqp"
    config.data.on_bad_text = "skip"  # three rows of GLUE's train.tsv are cut short
    return config
