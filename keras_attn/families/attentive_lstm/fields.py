"""Attentive LSTM: config fields."""

from keras_attn.declarations import FamilyFields
from keras_attn.families.recurrent_fields import POOLING, SHAPE
from keras_attn.field import Field

_MODEL = {
    **SHAPE,
    "cell": Field(
        "lstm",
        "recurrent cell: lstm, gru, or lstmn, which attends to its own past states",
        choices=("lstm", "gru", "lstmn"),
    ),
    **POOLING,
}
FIELDS = FamilyFields(name="attentive_lstm", model=_MODEL, finetuning=_MODEL)
