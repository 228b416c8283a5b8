r"""BERT-medium: 8 layers, hidden size 512.

    python -m pretrain --config=configs/bert_medium.py --workdir=runs/medium \
        --config.data.train='books/train/*.txt.gz' --config.data.validation='books/valid/*.txt.gz'
"""

from keras_attn.defaults import pretraining_defaults


def get_config():
    config = pretraining_defaults()
    config.model.size = "medium"
    return config
