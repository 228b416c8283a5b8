"""Attentive CNN: config fields."""

from keras_attn.declarations import FamilyFields
from keras_attn.field import Field

_MODEL = {
    "size": Field(
        str,
        "model size: tiny (hidden size 128), mini (256) or small (512); if unset, from "
        "`pretrained`, else tiny",
    ),
    "hidden_dim": Field(
        int,
        "hidden size, half of it filters and a quarter LSTM units per direction; if unset, from "
        "model.size",
        above=0,
    ),
    "kernel_size": Field(3, "kernel size of the convolution, in tokens", above=0),
    "dropout": Field(0.3, "dropout rate", low=0, below=1),
}
FIELDS = FamilyFields(name="attentive_cnn", model=_MODEL, finetuning=_MODEL)
