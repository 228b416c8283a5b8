"""LSTM language model: config fields."""

from keras_attn.declarations import FamilyFields
from keras_attn.families.recurrent_fields import SHAPE
from keras_attn.field import Field

FIELDS = FamilyFields(
    name="lstm",
    pretrains="causal_lm",
    model={
        **SHAPE,
        "hidden_dim": Field(int, "hidden size; if unset, from model.size", above=0),
        "cell": Field(
            "lstm", "recurrent cell: lstm, gru or lstmn", choices=("lstm", "gru", "lstmn")
        ),
        "dropout": Field(0.0, "dropout rate", low=0, below=1),
    },
)
