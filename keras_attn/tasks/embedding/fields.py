"""Embeddings of texts: config fields and files."""

from keras_attn.declarations import TaskFields
from keras_attn.tasks.pretraining.fields import MASKED, pretraining_fields

FIELDS = TaskFields(
    command=None,  # checkpoints are only converted
    family="bert",
    config=lambda family: pretraining_fields(family, MASKED),
    files=("embedding.json",),
    loaded="keras_attn.tasks.embedder.Embedder",
    convert_heads={"embedding": {}},
    keras_classes={"keras_attn.models.text_embedder": ("EmbeddingHead", "TextEmbedder")},
)
