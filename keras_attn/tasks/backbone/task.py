"""Backbones without a head, for embeddings."""

from keras_attn.tasks.contract import Task
from keras_attn.tasks.embedder import Embedder
from keras_attn.tasks.model_arguments import require_float32


class Backbone(Task):
    """A backbone without a head."""

    name = "backbone"
    command = "python -m finetune.embed"

    def load(self, trained, precision):
        require_float32(trained, precision)
        return Embedder(trained)

    def head_layers(self, heads):
        return {}


TASK = Backbone()
