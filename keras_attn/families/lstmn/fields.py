"""LSTMN: config fields."""

from keras_attn.declarations import FamilyFields
from keras_attn.families.recurrent_fields import POOLING, SHAPE
from keras_attn.field import Field

_MODEL = {
    **SHAPE,
    "tape_length": Field(32, "number of past states that a step attends to", above=0),
    **POOLING,
}
FIELDS = FamilyFields(name="lstmn", model=_MODEL, finetuning=_MODEL)
