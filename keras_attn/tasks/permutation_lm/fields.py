"""Permutation language modeling: config fields."""

from keras_attn.declarations import TaskFields
from keras_attn.field import Field
from keras_attn.shared_fields import DOCUMENTS
from keras_attn.tasks.pretraining.fields import pretraining_fields

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

FIELDS = TaskFields(
    command="pretrain",
    family="xlnet",
    names=("permutation_modeling",),
    config=lambda family: pretraining_fields(family, DATA),
)
