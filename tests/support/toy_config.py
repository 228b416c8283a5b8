"""Config of pretraining the toy family."""

from keras_attn.defaults import default_config


def get_config():
    config = default_config("masked_lm", "toy")
    config.data.update(format="lines", length=32, segments="full_sentences", vocab_size=200)
    config.train.update(steps=30, batch_size=8)
    return config
