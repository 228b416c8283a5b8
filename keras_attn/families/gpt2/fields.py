"""GPT-2: config fields, and the formats of its checkpoints."""

from keras_attn.declarations import FamilyFields
from keras_attn.field import Field
from keras_attn.shared_fields import SHAPE

_MODEL = {
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

FIELDS = FamilyFields(
    name="gpt2",
    libraries=("transformers", "openai/gpt-2", "KerasHub"),
    formats=("workdir", "huggingface", "kerashub", "openai"),
    config_files={"hparams.json": "openai"},
    huggingface_type="gpt2",
    kerashub_backbone="keras_hub>GPT2Backbone",
    model=_MODEL,
)
