"""GPT-2: config fields and checkpoint formats."""

from keras_attn.declarations import FamilyFields
from keras_attn.field import Field
from keras_attn.shared_fields import SHAPE

_MODEL = {
    "size": Field(
        str,
        "model size: tiny, mini, small, medium, large or xl; if unset, from `pretrained`, "
        "else tiny",
    ),
    **SHAPE,
    "max_length": Field(
        int,
        "context length: maximum number of tokens of prompt and continuation; if unset, from "
        "`pretrained`, else data.length",
        above=0,
    ),
    "dropout": Field(
        float, "dropout rate; if unset, from `pretrained`, else 0 (GPT-2: 0.1)", low=0, below=1
    ),
    "initializer_range": Field(float, "initializer standard deviation; if unset, 0.02", above=0),
}

FIELDS = FamilyFields(
    name="gpt2",
    pretrains="causal_lm",
    libraries=("transformers", "openai/gpt-2", "KerasHub"),
    formats=("workdir", "huggingface", "kerashub", "openai"),
    config_files={"hparams.json": "openai"},
    huggingface_types=("gpt2",),
    kerashub_backbone="keras_hub>GPT2Backbone",
    model=_MODEL,
)
