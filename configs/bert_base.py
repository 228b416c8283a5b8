r"""BERT-base (Devlin et al., 2018): 12 layers, hidden size 768, 1,000,000 steps of 256 sequences.

    python -m pretrain --config=configs/bert_base.py --workdir=runs/base \
        --config.data.train='wiki/*.txt.gz' --config.data.validation='held_out/*.txt.gz'

Sequences have 128 tokens. The paper's two phases are two runs: 900,000 steps (`train.steps`), then
100,000 steps with `--pretrained=runs/base --config.data.length=512` in another `workdir`.
"""

from keras_attn.defaults import as_bert, pretraining_defaults


def get_config():
    config = as_bert(pretraining_defaults())
    config.model.size = "base"
    config.data.vocab_size = 30522
    config.train.steps = 1_000_000
    return config
