"""The toy task: config fields."""

from keras_attn.tasks.finetuning.fields import FINETUNING

NAMES = ("counting",)
FAMILY = "bert"
COMMAND = "finetune"
HUGGINGFACE_CLASS = "ForCounting"
METRICS = ("mean_error",)


def config_fields(family):
    return FINETUNING
