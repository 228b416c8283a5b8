"""The family of the encoder-decoder Transformer."""

import math

from keras_attn.families.contract import Family
from keras_attn.families.step_memory import LayerMemory, feed_forward_dim, layer_values
from keras_attn.models.transformer import TRANSFORMER_SIZES, Transformer
from keras_attn.text.recipes import KINDS


class TransformerFamily(Family):
    """The Transformer (Vaswani et al., 2017)."""

    name, title = "transformer", "Transformer"
    backbone, backbone_name = Transformer, "transformer"
    task_models = {"translation": None}
    encodes = False  # its inputs are pairs of sequences
    tokenizers = KINDS["subwords"]
    sizes = TRANSFORMER_SIZES
    free_arguments = ("dropout", "attention_dropout", "label_smoothing")

    def default_arguments(self, run, shape):
        # Batches are filled up to some power of two at most.
        return {"max_length": 2 ** math.ceil(math.log2(max(run.config.data.length, 8)))}

    def memory(self, architecture, length, targets):
        width, layers = architecture["hidden_dim"], architecture["num_layers"]
        inner, table = feed_forward_dim(architecture), architecture["vocabulary_size"] * width
        # Encoder layers, and decoder layers with two attentions.
        parts = [layer_values(architecture, length, length, attentions=count) for count in (1, 2)]
        tables = (
            1
            + bool(architecture.get("target_vocabulary_size"))
            + (not architecture.get("tie_embeddings", True))
        )
        return LayerMemory(
            parameters=layers * (12 * width**2 + 4 * width * inner)
            + architecture.get("max_length", 0) * width
            + table * tables,
            inputs=2 * layers * length * width,
            activations=int(layers * sum(parts)),
            layer=int(max(parts)),
        )


FAMILY = TransformerFamily()
