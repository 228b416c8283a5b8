"""Causal language modeling: config fields."""

from keras_attn.declarations import TaskFields
from keras_attn.field import Field
from keras_attn.shared_fields import DOCUMENTS
from keras_attn.tasks.pretraining.fields import pretraining_fields

DATA = {
    "task": Field("language_modeling", "training objective: causal language modeling"),
    **DOCUMENTS,
}

FIELDS = TaskFields(
    command="pretrain",
    family="gpt2",
    names=("language_modeling",),
    config=lambda family: pretraining_fields(family, DATA),
    loaded="keras_attn.tasks.generator.Generator",
)
