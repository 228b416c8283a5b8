r"""Predicts which package a docstring comes from: labelled data that every installation has.

python -m finetune --config=configs/docstrings.py --pretrained=runs/demo --workdir=runs/package
"""

from keras_attn.defaults import finetuning_defaults


def get_config():
    config = finetuning_defaults()
    config.data.train = "docstrings"
    config.model.pooling = "mean"
    config.train.learning_rate = 2e-3
    config.train.epochs = 10.0
    return config
