r"""BERT-base: 12 layers of width 768.

    python -m pretrain --config=configs/bert_base.py --workdir=runs/base \
        --config.data.train='books/train/*.txt.gz' --config.data.validation='books/valid/*.txt.gz'
"""

from keras_attn.jobs.defaults import pretraining_defaults


def get_config():
    config = pretraining_defaults()
    config.model.size = "base"
    return config
