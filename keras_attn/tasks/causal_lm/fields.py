"""Causal language modeling: config fields."""

from keras_attn.field import Field
from keras_attn.shared_fields import DOCUMENTS
from keras_attn.tasks.pretraining.fields import pretraining_fields

NAMES = ("language_modeling",)  # in data.task
FAMILY = "gpt2"  # where a config names none
COMMAND = "pretrain"
METRICS = ()

DATA = {
    "task": Field("language_modeling", "what is learnt"),
    **DOCUMENTS,
}


def config_fields(family):
    """Fields of a config.

    Args:
        family: Module `fields` of a family.
    """
    return pretraining_fields(family, DATA)
