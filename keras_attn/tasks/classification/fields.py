"""Classification of texts and of pairs of texts: config fields."""

from keras_attn.tasks.finetuning.fields import FINETUNING

NAMES = ("single_label", "multilabel", "regression")  # in data.task
FAMILY = "bert"  # where a config names none
COMMAND = "finetune"
HUGGINGFACE_CLASS = "ForSequenceClassification"
METRICS = ("accuracy", "f1", "f1_macro", "f1_micro", "matthews", "pearson", "spearman",
           "mean_squared_error")


def config_fields(family):
    """Fields of a config, the same for every family."""
    return FINETUNING
