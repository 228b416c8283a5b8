"""Masked language modeling: config fields."""

from keras_attn.declarations import TaskFields
from keras_attn.tasks.pretraining.fields import MASKED, pretraining_fields

FIELDS = TaskFields(
    command="pretrain",
    family="bert",
    config=lambda family: pretraining_fields(family, MASKED),
    convert_heads={"pretraining": {"next_sentence": True}, "masked_lm": {"next_sentence": False}},
)
