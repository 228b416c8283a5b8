r"""BERT-base: 12 layers of width 768, as Devlin et al. trained it (1,000,000 steps of 256 rows).

    python -m pretrain --config=configs/bert_base.py --workdir=runs/base \
        --config.data.train='wiki/*.txt.gz' --config.data.validation='held_out/*.txt.gz' \
        --config.data.vocab_size=30522 --config.train.steps=1000000
"""

from keras_attn.defaults import as_bert, pretraining_defaults


def get_config():
    config = as_bert(pretraining_defaults())
    config.model.size = "base"
    return config
