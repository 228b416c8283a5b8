r"""ELECTRA-small as published: 12 layers, hidden size 256, embedding size 128, a generator of 1/4.

    python -m pretrain --config=configs/electra_small.py --workdir=runs/electra \
        --config.data.train='books/train/*.txt.gz' --config.data.validation='books/valid/*.txt.gz'

Clark et al. trained it for a million steps on rows of 128 tokens.
"""

from keras_attn.defaults import as_published, default_config


def get_config():
    config = as_published(default_config("replaced_tokens"))
    config.model.size = "small"
    config.data.vocab_size = 30522
    config.train.steps = 1_000_000
    return config
