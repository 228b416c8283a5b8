r"""GPT-2 small (Radford et al., 2019), a causal language model: 12 layers, hidden size 768.

    python -m pretrain --config=configs/gpt2_small.py --workdir=runs/gpt2 \
        --config.data.train='books/train/*.txt.gz' --config.data.validation='books/valid/*.txt.gz'

On few cores, use `--config.model.size=tiny`. For the paper's vocabulary of 50,257 tokens, set
`--config.data.vocab` to a folder with its encoder.json and vocab.bpe.
"""

from keras_attn.defaults import language_modeling_defaults


def get_config():
    config = language_modeling_defaults()
    config.model.size = "small"
    config.data.update(length=1024, vocab_size=32768)
    config.train.update(learning_rate=6e-4, schedule="cosine", weight_decay=0.1)
    return config
