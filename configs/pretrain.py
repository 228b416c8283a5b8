r"""Pretrains BERT-tiny on the docstrings installed with Python, or continues from `pretrained`.

    python -m pretrain --workdir=runs/demo
    python -m pretrain --pretrained=runs/mini --workdir=runs/mini512 --config.data.length=512 \
        --config.data.train='more/*.txt.gz'
"""

from keras_attn.defaults import pretraining_defaults


def get_config():
    return pretraining_defaults()
