"""Hierarchical attention network: config fields."""

from keras_attn.declarations import FamilyFields
from keras_attn.field import Field

_MODEL = {
    "size": Field(
        str,
        "model size: tiny (hidden size 128), mini (256) or small (512); if unset, from "
        "`pretrained`, else tiny",
    ),
    "hidden_dim": Field(
        int, "hidden size, half of it per direction; if unset, from model.size", above=0
    ),
    "levels": Field(
        "gru,gru",
        "encoder of each level, gru or none, separated by commas: words, sentences, paragraphs and "
        "any higher levels",
    ),
    "min_words": Field(8, "minimum number of tokens of a sentence", above=0),
    "max_words": Field(32, "maximum number of tokens of a sentence", above=0),
    "max_units": Field(
        10, "maximum number of sentences of a paragraph, and of units of a higher level", above=0
    ),
    "dropout": Field(0.3, "dropout rate", low=0, below=1),
}
FIELDS = FamilyFields(name="hierarchical", model=_MODEL, finetuning=_MODEL)
