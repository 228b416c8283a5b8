r"""CoLA: is a sentence acceptable English?

    python -m finetune --config=configs/cola.py --pretrained=runs/mini --workdir=runs/cola \
        --config.data.train=CoLA/train.tsv --config.data.validation=CoLA/dev.tsv

Without files the data are `tfds:glue/cola`.
"""

from keras_attn.defaults import finetuning_defaults


def get_config():
    config = finetuning_defaults()
    config.data.task = "cola"
    return config
