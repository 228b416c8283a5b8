"""LSTM language model: config fields."""

from keras_attn.declarations import FamilyFields
from keras_attn.field import Field

FIELDS = FamilyFields(
    name="lstm",
    pretrains="causal_lm",
    model={
        "size": Field(
            str,
            "model size: tiny (1 layer, hidden size 128), mini (1, 256) or small (2, 512); if "
            "unset, from `pretrained`, else tiny",
        ),
        "num_layers": Field(int, "number of recurrent layers; if unset, from model.size", above=0),
        "hidden_dim": Field(int, "hidden size; if unset, from model.size", above=0),
        "cell": Field(
            "lstm", "recurrent cell: lstm, gru or lstmn", choices=("lstm", "gru", "lstmn")
        ),
        "dropout": Field(0.0, "dropout rate", low=0, below=1),
    },
)
