"""Backbones without a head: config fields."""

from keras_attn.declarations import TaskFields
from keras_attn.tasks.pretraining.fields import MASKED, pretraining_fields

FIELDS = TaskFields(
    command=None,  # checkpoints without heads are only converted
    family="bert",
    config=lambda family: pretraining_fields(family, MASKED),
    loaded="keras_attn.tasks.embedder.Embedder",
    convert_heads={"encoder": {}},
)
