"""The family of convolutional encoders with attention pooling."""

from keras_attn.families.contract import Family
from keras_attn.families.layer_memory import LayerMemory, embedding_dim
from keras_attn.models import AttentiveCNN, RecurrentClassifier
from keras_attn.text.tokenizer_types import TOKENIZER_TYPES


class AttentiveCNNFamily(Family):
    """A convolution beside a BiLSTM, whose last states are the query of the attention pooling."""

    name, title = "attentive_cnn", "attentive CNN"
    backbone, backbone_name = AttentiveCNN, "attentive_cnn"
    packs = False
    scratch_learning_rate, scratch_epochs = 2e-3, 8.0  # docs/families/attentive_cnn.md
    pooling = "cls"
    task_models = {"classification": RecurrentClassifier}
    tokenizers = TOKENIZER_TYPES["wordpiece"]
    sizes = {"tiny": {"hidden_dim": 128}, "mini": {"hidden_dim": 256}, "small": {"hidden_dim": 512}}

    def memory(self, task, architecture, heads, length, targets):
        hidden_dim, depth = architecture["hidden_dim"], embedding_dim(architecture)
        layer = 6 * length * hidden_dim  # convolution, gates and states
        return LayerMemory(
            parameters=depth * (architecture["vocabulary_size"] + 4 * hidden_dim),
            inputs=length * depth,
            activations=layer,
            layer=layer,
        )


FAMILY = AttentiveCNNFamily()
