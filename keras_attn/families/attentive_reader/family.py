"""The family of recurrent readers with attention to the question."""

from keras_attn.families.contract import Family
from keras_attn.families.layer_memory import LayerMemory, embedding_dim
from keras_attn.models import AttentiveReader, BertQuestionAnswerer
from keras_attn.text.tokenizer_types import TOKENIZER_TYPES


class AttentiveReaderFamily(Family):
    """A BiLSTM over a passage, whose tokens attend to the question."""

    name, title = "attentive_reader", "attentive reader"
    backbone, backbone_name = AttentiveReader, "attentive_reader"
    encodes = False  # requires a question
    packs = False
    scratch_learning_rate = 2e-3
    task_models = {"span_qa": BertQuestionAnswerer}
    tokenizers = TOKENIZER_TYPES["wordpiece"]
    sizes = {"tiny": {"hidden_dim": 128}, "mini": {"hidden_dim": 256}, "small": {"hidden_dim": 512}}

    def memory(self, task, architecture, heads, length, targets):
        hidden_dim, depth = architecture["hidden_dim"], embedding_dim(architecture)
        # Gates and states of the two passes of the encoder and of the reader, and the attention.
        layer = length * (24 * hidden_dim + 3 * length)
        return LayerMemory(
            parameters=depth * architecture["vocabulary_size"]
            + hidden_dim * (2 * depth + 8 * hidden_dim),
            inputs=length * depth,
            activations=layer,
            layer=layer,
        )


FAMILY = AttentiveReaderFamily()
