"""The family of encoders of LSTMs that attend to their own past states."""

from keras_attn.families.architecture_choice import named_sizes
from keras_attn.families.contract import Family
from keras_attn.families.layer_memory import LayerMemory, embedding_dim
from keras_attn.models import BertQuestionAnswerer, RecurrentClassifier, RecurrentEncoder
from keras_attn.models.recurrent import RECURRENT_SIZES
from keras_attn.text.tokenizer_types import TOKENIZER_TYPES


class LSTMNFamily(Family):
    """A bidirectional encoder of LSTMs with intra-attention (Cheng et al., 2016)."""

    name, title = "lstmn", "LSTMN"
    backbone, backbone_name = RecurrentEncoder, "recurrent_encoder"
    packs = False
    scratch_learning_rate, scratch_epochs = 2e-3, 8.0  # docs/families/lstmn.md
    pooling = "cls"
    task_models = {"classification": RecurrentClassifier, "span_qa": BertQuestionAnswerer}
    tokenizers = TOKENIZER_TYPES["wordpiece"]
    sizes = named_sizes(RECURRENT_SIZES)

    def default_arguments(self, run, shape):
        return {"cell": "lstmn"}

    def memory(self, task, architecture, heads, length, targets):
        hidden_dim, layers = architecture["hidden_dim"], architecture["num_layers"]
        # Gates, states and inputs, and for each step the tape and its scores.
        layer = length * hidden_dim * (8 + 4 * architecture.get("tape_length", 32))
        return LayerMemory(
            parameters=8 * layers * hidden_dim**2
            + architecture["vocabulary_size"] * embedding_dim(architecture),
            inputs=layers * length * hidden_dim,
            activations=layers * layer,
            layer=layer,
        )


FAMILY = LSTMNFamily()
