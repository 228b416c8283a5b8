"""XLNet: config fields, and the formats of its checkpoints."""

from keras_attn.field import Field
from keras_attn.shared_fields import SHAPE

NAME = "xlnet"
LIBRARIES = ("transformers", "zihangdai/xlnet")
FORMATS = ("workdir", "huggingface", "google")
CONFIG_FILES = {"xlnet_config.json": "google"}
HUGGINGFACE_TYPE = "xlnet"
KERASHUB_BACKBONE = None

MODEL = {
    "size": Field(
        str, "tiny, mini, small, medium, base, large; without: that of `pretrained` or tiny"),
    **SHAPE,
    "initializer_range": Field(float, "spread of first weights; without: 0.02", above=0),
    "memory_length": Field(
        int, "tokens before a row that it sees; without: that of `pretrained`, or 0"),
    "max_distance": Field(
        int, "distances beyond count as it; without: that of `pretrained`, or any"),
    "dropout": Field(
        float, "share of values set to 0 in training; without: that of `pretrained`, or 0 "
        "(XLNet: 0.1)", low=0, below=1),
}
