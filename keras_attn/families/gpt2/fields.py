"""GPT-2: config fields, and the formats of its checkpoints."""

from keras_attn.field import Field
from keras_attn.shared_fields import SHAPE

NAME = "gpt2"
LIBRARIES = ("transformers", "openai/gpt-2", "KerasHub")
FORMATS = ("workdir", "huggingface", "kerashub", "openai")
CONFIG_FILES = {"hparams.json": "openai"}
HUGGINGFACE_TYPE = "gpt2"
KERASHUB_BACKBONE = "keras_hub>GPT2Backbone"

MODEL = {
    "size": Field(
        str, "tiny, mini, small, medium, large, xl; without: that of `pretrained` or tiny"),
    **SHAPE,
    "max_length": Field(
        int, "positions, which are the tokens of a text that it goes on with at most; "
        "without: those of `pretrained`, or data.length"),
    "dropout": Field(
        float, "share of values set to 0 in training; without: that of `pretrained`, or 0 "
        "(GPT-2: 0.1)", low=0, below=1),
    "initializer_range": Field(float, "spread of first weights; without: 0.02", above=0),
}
