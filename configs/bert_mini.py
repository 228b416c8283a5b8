r"""BERT-mini: 4 layers, hidden size 256.

    python -m pretrain --config=configs/bert_mini.py --workdir=runs/mini \
        --config.data.train='books/train/*.txt.gz' --config.data.validation='books/valid/*.txt.gz'
"""

from keras_attn.defaults import pretraining_defaults


def get_config():
    config = pretraining_defaults()
    config.model.size = "mini"
    return config
