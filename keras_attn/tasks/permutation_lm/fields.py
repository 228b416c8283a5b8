"""Permutation language modeling: config fields."""

from keras_attn.field import Field
from keras_attn.shared_fields import DOCUMENTS
from keras_attn.tasks.pretraining.fields import pretraining_fields

NAMES = ("permutation_modeling",)  # in data.task
FAMILY = "xlnet"  # where a config names none
COMMAND = "pretrain"
METRICS = ()

DATA = {
    "task": Field("permutation_modeling", "what is learnt"),
    **DOCUMENTS,
    "vocab": Field(
        str, "sentencepiece model with XLNet's marks, or a folder with spiece.model; without: "
        "that of `pretrained` or of the prepared folder data.train, else trained on data.train",
        ),
    "lowercase": Field(
        bool, "whether text is lower-cased; without: as `pretrained` or the prepared folder "
        "data.train, or no"),
    "predicted_fraction": Field(1 / 6, "share of tokens to tell, 1 / K in the paper"),
    "spans": Field(True, "tell spans of whole words"),
    "bidirectional": Field(False, "every other row holds its text from the end on"),
}


def config_fields(family):
    """Fields of a config.

    Args:
        family: Module `fields` of a family.
    """
    return pretraining_fields(family, DATA)
