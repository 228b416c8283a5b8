r"""BERT-large: 24 layers of width 1024.

    python -m pretrain --config=configs/bert_large.py --workdir=runs/large \
        --config.data.train='books/train/*.txt.gz' --config.data.validation='books/valid/*.txt.gz'
"""

from keras_attn.jobs.defaults import pretraining_defaults


def get_config():
    config = pretraining_defaults()
    config.model.size = "large"
    return config
