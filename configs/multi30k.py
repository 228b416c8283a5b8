r"""A small Transformer that translates Multi30k, or any two aligned files.

    python -m finetune --config=configs/multi30k.py --workdir=runs/de \
        --config.data.train.source=train.en --config.data.train.target=train.de \
        --config.data.validation.source=val.en --config.data.validation.target=val.de
    python -m finetune.translate --workdir=runs/de < in.txt > out.txt

For text that is lower-cased and tokenised: `--config.eval.lowercase=true
--config.eval.tokenize=none`. The size and dropout of Wu et al., Good for Misconceived Reasons,
2021, whose text-only baseline has 41.02 BLEU on such text, test_2016_flickr.
"""

from keras_attn.defaults import translation_defaults


def get_config():
    config = translation_defaults()
    config.model.update(size="tiny", dropout=0.3)
    config.train.update(learning_rate=0.003, warmup_fraction=0.1, epochs=60.0, clip_norm=0.0,
                        weight_decay=0.0)
    config.eval.update(every=600)
    config.checkpoint.update(every=120, average=10)
    return config
