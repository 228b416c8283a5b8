"""Permutation language modeling: config fields."""

from keras_attn.declarations import TaskFields
from keras_attn.field import Field
from keras_attn.shared_fields import DOCUMENTS
from keras_attn.tasks.pretraining.fields import pretraining_fields

DATA = {
    "task": Field("permutation_modeling", "training objective: permutation language modeling"),
    **DOCUMENTS,
    "vocab": Field(
        str,
        "SentencePiece model with XLNet's special tokens, or a folder with spiece.model; if "
        "unset, from `pretrained` or from the prepared folder data.train, else trained on "
        "data.train",
    ),
    "lowercase": Field(
        bool,
        "whether to lower-case text; if unset, as in `pretrained` or in the prepared folder "
        "data.train, else False",
    ),
    "predicted_fraction": Field(
        1 / 6, "fraction of tokens that are predicted (1 / K in the paper)", above=0, below=1
    ),
    "spans": Field(True, "whether to predict spans of whole words"),
    "bidirectional": Field(False, "whether to reverse the text of every other sequence"),
}

FIELDS = TaskFields(
    command="pretrain",
    family="xlnet",
    names=("permutation_modeling",),
    config=lambda family: pretraining_fields(family, DATA),
    loaded="keras_attn.tasks.generator.Generator",
)
