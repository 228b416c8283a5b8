"""XLNet: config fields and checkpoint formats."""

from keras_attn.declarations import FamilyFields
from keras_attn.field import Field
from keras_attn.shared_fields import SHAPE

_MODEL = {
    "size": Field(
        str,
        "model size: tiny, mini, small, medium, base or large; if unset, from `pretrained`, "
        "else tiny",
    ),
    **SHAPE,
    "initializer_range": Field(float, "initializer standard deviation; if unset, 0.02", above=0),
    "memory_length": Field(
        int,
        "Transformer-XL memory: number of preceding tokens that a sequence attends to; if "
        "unset, from `pretrained`, else 0",
        low=0,
    ),
    "max_distance": Field(
        int,
        "maximum relative distance; larger distances are clipped to it; if unset, from "
        "`pretrained`, else unlimited",
        above=0,
    ),
    "dropout": Field(
        float, "dropout rate; if unset, from `pretrained`, else 0 (XLNet: 0.1)", low=0, below=1
    ),
}

FIELDS = FamilyFields(
    name="xlnet",
    pretrains="permutation_lm",
    libraries=("transformers", "zihangdai/xlnet"),
    formats=("workdir", "huggingface", "google"),
    config_files={"xlnet_config.json": "google"},
    huggingface_types=("xlnet",),
    model=_MODEL,
)
