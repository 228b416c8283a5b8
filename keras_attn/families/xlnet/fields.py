"""XLNet: config fields, and the formats of its checkpoints."""

from keras_attn.declarations import FamilyFields
from keras_attn.field import Field
from keras_attn.shared_fields import SHAPE

_MODEL = {
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

FIELDS = FamilyFields(
    name="xlnet",
    libraries=("transformers", "zihangdai/xlnet"),
    formats=("workdir", "huggingface", "google"),
    config_files={"xlnet_config.json": "google"},
    huggingface_type="xlnet",
    model=_MODEL,
)
