r"""ModernBERT-base (Warner et al., 2024): 22 layers, hidden size 768, sequences of 1,024 tokens.

    python -m pretrain --config=configs/modernbert_base.py --workdir=runs/base \
        --config.data.train='wiki/*.txt.gz' --config.data.validation='held_out/*.txt.gz' \
        --config.train.steps=400_000

The paper's context extension is another run, which starts from the weights of the first one:
`--pretrained=runs/base --config.data.length=8192 --config.train.batch_size=576
--config.train.learning_rate=3e-4 --config.train.schedule=constant`. In the paper, the first run
has `--config.model.rotary_base=10000`, and the second one 160,000, the default.
"""

from keras_attn.defaults import as_published, default_config


def get_config():
    config = as_published(default_config("masked_lm", "modernbert"))
    config.model.size = "base"
    config.data.update(length=1024, vocab_size=50368)
    config.train.precision = "mixed_bfloat16"
    return config
