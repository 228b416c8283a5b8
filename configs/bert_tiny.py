r"""BERT-tiny: 2 layers, hidden size 128.

    python -m pretrain --config=configs/bert_tiny.py --workdir=runs/tiny \
        --config.data.train='books/train/*.txt.gz' --config.data.validation='books/valid/*.txt.gz'
"""

from keras_attn.defaults import pretraining_defaults


def get_config():
    config = pretraining_defaults()
    config.model.size = "tiny"
    return config
