r"""A small Transformer that translates Multi30k, or any two files of aligned sentences.

    python -m finetune --config=configs/multi30k.py --workdir=runs/de \
        --config.data.train.source=train.en --config.data.train.target=train.de \
        --config.data.validation.source=val.en --config.data.validation.target=val.de
    python -m finetune.translate --workdir=runs/de < in.txt > out.txt

For lowercased, tokenized text, add `--config.eval.lowercase=true --config.eval.tokenize=none`. With
fewer sentences, lower `data.vocab_size`; with `model.size=base`, lower the learning rate to 0.0007.
"""

from keras_attn.defaults import translation_defaults


def get_config():
    # Model size, dropout, learning rate, vocabulary size and beam size are those of Wu et al., Good
    # for Misconceived Reasons, 2021, whose text-only baseline has 41.02 BLEU on lowercased,
    # tokenized test_2016_flickr. Pre-norm, the warmup and the number of epochs are ours.
    config = translation_defaults()
    config.data.vocab_size = 10_000
    config.model.update(size="tiny", dropout=0.3)
    config.train.update(
        learning_rate=0.005, warmup_fraction=0.12, epochs=100.0, clip_norm=0.0, weight_decay=0.0
    )
    config.eval.update(every=600, beam=5, length_penalty=1.0)
    config.checkpoint.update(every=120, average=10)
    return config
