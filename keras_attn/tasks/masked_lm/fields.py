"""Masked language modeling: config fields."""

from keras_attn.tasks.pretraining.fields import MASKED, pretraining_fields

NAMES = ()  # in data.task
FAMILY = "bert"  # where a config names none
COMMAND = "pretrain"
METRICS = ()
# Values of `--task` of `keras_attn.convert` that choose this task, and the arguments of its head.
HEADS = {"pretraining": {"next_sentence": True}, "masked_lm": {"next_sentence": False}}


def config_fields(family):
    """Fields of a config.

    Args:
        family: Module `fields` of a family.
    """
    return pretraining_fields(family, MASKED)
