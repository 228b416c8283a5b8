r"""GPT-2 small: 12 layers of width 768, which tell the next token.

    python -m pretrain --config=configs/gpt2_small.py --workdir=runs/gpt2 \
        --config.data.train='books/train/*.txt.gz' --config.data.validation='books/valid/*.txt.gz'

On few cores: `--config.model.size=tiny`. The paper's vocabulary of 50,257 pieces:
`--config.data.vocab=FOLDER`, with its encoder.json and vocab.bpe.
"""

from keras_attn.defaults import language_modeling_defaults


def get_config():
    config = language_modeling_defaults()
    config.model.size = "small"
    config.data.update(length=1024, vocab_size=32768)
    config.train.update(learning_rate=6e-4, schedule="cosine", weight_decay=0.1)
    return config
