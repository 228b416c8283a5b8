"""Masked language modeling: config fields."""

from keras_attn.tasks.pretraining.fields import MASKED, pretraining_fields

NAMES = ()  # in data.task
FAMILY = "bert"  # where a config names none
COMMAND = "pretrain"
METRICS = ()


def config_fields(family):
    """Fields of a config.

    Args:
        family: Module `fields` of a family.
    """
    return pretraining_fields(family, MASKED)
