"""The family of convolutional networks with attention between two sentences."""

from keras_attn.families.architecture_choice import named_sizes
from keras_attn.families.contract import Family
from keras_attn.families.layer_memory import LayerMemory, embedding_dim
from keras_attn.models import ABCNNClassifier, ABCNNEncoder
from keras_attn.text.tokenizer_types import TOKENIZER_TYPES

MAX_LENGTH = 256  # if neither model.max_length nor data.length is set


class ABCNNFamily(Family):
    """Convolutions over two sentences, with attention before them or in the pooling."""

    name, title = "abcnn", "ABCNN"
    backbone, backbone_name = ABCNNEncoder, "abcnn_encoder"
    encodes = False  # requires two sentences
    requires_pairs = True
    packs = False
    scratch_learning_rate = 1e-3  # docs/families/abcnn.md
    pooling = "cls"
    task_models = {"classification": ABCNNClassifier}
    tokenizers = TOKENIZER_TYPES["wordpiece"]
    sizes = named_sizes({"tiny": (1, 64), "mini": (1, 128), "small": (2, 128)})

    def default_arguments(self, run, shape):
        if shape.get("variant") in (0, 2):  # no weights per position
            return {}
        return {"max_length": run.config.data.length or MAX_LENGTH}

    def memory(self, task, architecture, heads, length, targets):
        hidden_dim, depth = architecture["hidden_dim"], embedding_dim(architecture)
        layers, variant = architecture["num_layers"], architecture.get("variant", 3)
        depths = [depth] + [hidden_dim] * (layers - 1)
        # Of each matrix of matches, the differences, their squares and the gradient.
        layer_values = [
            2 * length * (2 * size + 3 * hidden_dim)
            + 3 * length**2 * (size * (variant in (1, 3)) + hidden_dim * (variant in (2, 3)))
            for size in depths
        ]
        kernels = architecture.get("width", 4) * hidden_dim * sum(2 * size for size in depths)
        return LayerMemory(
            parameters=depth * architecture["vocabulary_size"] + kernels,
            inputs=2 * length * sum(depths),
            activations=sum(layer_values),
            layer=max(layer_values),
        )


FAMILY = ABCNNFamily()
