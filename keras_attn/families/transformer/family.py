"""The family of the encoder-decoder Transformer."""

import math

from keras_attn.families.architecture_choice import named_sizes
from keras_attn.families.contract import Family
from keras_attn.families.layer_memory import (
    LayerMemory,
    feed_forward_dim,
    layer_values,
    learned_positions,
)
from keras_attn.models.transformer import TRANSFORMER_SIZES, Transformer
from keras_attn.text.tokenizer_types import TOKENIZER_TYPES


class TransformerFamily(Family):
    """The Transformer (Vaswani et al., 2017)."""

    name, title = "transformer", "Transformer"
    backbone, backbone_name = Transformer, "transformer"
    task_models = {"translation": None}
    encodes = False  # its inputs are pairs of sequences
    tokenizers = TOKENIZER_TYPES["subwords"]
    sizes = named_sizes(TRANSFORMER_SIZES)
    free_arguments = ("dropout", "attention_dropout", "label_smoothing")

    def default_arguments(self, run, shape):
        # Batches are padded to at most this power of two.
        return {"max_length": 2 ** math.ceil(math.log2(max(run.config.data.length, 8)))}

    def memory(self, task, architecture, heads, length, targets):
        hidden_dim, num_layers = architecture["hidden_dim"], architecture["num_layers"]
        inner = feed_forward_dim(architecture)
        # An encoder layer, and a decoder layer with two attention sublayers.
        layers = [layer_values(architecture, length, length, attentions=count) for count in (1, 2)]
        embeddings = (
            1
            + bool(architecture.get("target_vocabulary_size"))
            + (not architecture.get("tie_embeddings", True))
        )
        return LayerMemory(
            parameters=num_layers * (12 * hidden_dim**2 + 4 * hidden_dim * inner)
            + learned_positions(architecture) * hidden_dim
            + architecture["vocabulary_size"] * hidden_dim * embeddings,
            inputs=2 * num_layers * length * hidden_dim,
            activations=int(num_layers * sum(layers)),
            layer=int(max(layers)),
        )


FAMILY = TransformerFamily()
