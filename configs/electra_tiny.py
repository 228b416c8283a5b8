r"""ELECTRA-tiny, pretrained by replaced-token detection: 2 layers, hidden size 128.

    python -m pretrain --config=configs/electra_tiny.py --workdir=runs/electra \
        --config.data.train='books/train/*.txt.gz' --config.data.validation='books/valid/*.txt.gz'
"""

from keras_attn.defaults import default_config


def get_config():
    config = default_config("replaced_tokens")
    config.model.size = "tiny"
    return config
