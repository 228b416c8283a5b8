"""Models without a head: config fields."""

from keras_attn.tasks.pretraining.fields import MASKED, pretraining_fields

NAMES = ()  # in data.task
FAMILY = "bert"  # where a config names none
COMMAND = None  # no run makes one: a checkpoint without heads is converted
METRICS = ()
HEADS: dict[str, dict] = {"encoder": {}}  # of `keras_attn.convert`


def config_fields(family):
    """Fields of a config.

    Args:
        family: Module `fields` of a family.
    """
    return pretraining_fields(family, MASKED)
