"""Question answering: config fields."""

from keras_attn.tasks.finetuning.fields import FINETUNING

NAMES = ("reading_comprehension",)  # in data.task
FAMILY = "bert"  # where a config names none
COMMAND = "finetune"
HUGGINGFACE_CLASS = "ForQuestionAnswering"
METRICS = ("f1", "exact")  # models are selected by the first unless eval.metric names another


def config_fields(family):
    """Fields of a config, the same for every family."""
    return FINETUNING
