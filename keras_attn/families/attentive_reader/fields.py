"""Attentive reader: config fields."""

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
    "question": Field(
        "attention",
        "how the passage reads the question: attention of each token to it, or vector, one vector "
        "of the question beside each token",
        choices=("attention", "vector"),
    ),
    "dropout": Field(0.2, "dropout rate", low=0, below=1),
}
FIELDS = FamilyFields(name="attentive_reader", model=_MODEL, finetuning=_MODEL)
