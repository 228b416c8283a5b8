r"""ModernBERT-small: 6 layers, hidden size 512; about the parameters of BERT-small.

    python -m pretrain --config=configs/modernbert_small.py --workdir=runs/small \
        --config.data.train='books/train/*.txt.gz' --config.data.validation='books/valid/*.txt.gz'

Sequences have 128 tokens. A longer context is another run, which starts from the weights of the
first one: `--pretrained=runs/small --config.data.length=1024 --config.train.batch_size=4`.
"""

from keras_attn.defaults import default_config


def get_config():
    config = default_config("masked_lm", "modernbert")
    config.model.size = "small"
    config.train.schedule = "wsd"
    return config
