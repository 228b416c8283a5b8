r"""A small XLNet, a permutation language model: 4 layers, hidden size 512.

    python -m pretrain --config=configs/xlnet_small.py --workdir=runs/xlnet \
        --config.data.train='books/train/*.txt.gz' --config.data.validation='books/valid/*.txt.gz'

On few cores, use `--config.model.size=tiny`. For sequences of half the length that also attend to
the previous 128 tokens, set `--config.data.length=128 --config.model.memory_length=128`.
"""

from keras_attn.defaults import permutation_modeling_defaults


def get_config():
    config = permutation_modeling_defaults()
    config.model.size = "small"
    config.data.update(length=256, vocab_size=32000)
    config.train.update(learning_rate=5e-4)
    return config
