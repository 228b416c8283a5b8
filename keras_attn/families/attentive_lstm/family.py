"""The family of recurrent encoders with attention pooling."""

from keras_attn.families.architecture_choice import named_sizes
from keras_attn.families.contract import Family
from keras_attn.families.layer_memory import LayerMemory, embedding_dim
from keras_attn.models import BertQuestionAnswerer, RecurrentClassifier, RecurrentEncoder
from keras_attn.models.recurrent import RECURRENT_SIZES
from keras_attn.text.tokenizer_types import TOKENIZER_TYPES


class AttentiveLSTMFamily(Family):
    """A bidirectional recurrent encoder, whose vectors are pooled by attention or otherwise."""

    name, title = "attentive_lstm", "attentive LSTM"
    backbone, backbone_name = RecurrentEncoder, "recurrent_encoder"
    packs = False
    scratch_learning_rate, scratch_epochs = 2e-3, 8.0  # docs/families/attentive_lstm.md
    pooling = "cls"
    task_models = {"classification": RecurrentClassifier, "span_qa": BertQuestionAnswerer}
    tokenizers = TOKENIZER_TYPES["wordpiece"]
    sizes = named_sizes(RECURRENT_SIZES)

    def memory(self, task, architecture, heads, length, targets):
        hidden_dim, layers = architecture["hidden_dim"], architecture["num_layers"]
        layer = 8 * length * hidden_dim  # gates, states and inputs
        return LayerMemory(
            parameters=6 * layers * hidden_dim**2
            + architecture["vocabulary_size"] * embedding_dim(architecture),
            inputs=layers * length * hidden_dim,
            activations=layers * layer,
            layer=layer,
        )


FAMILY = AttentiveLSTMFamily()
