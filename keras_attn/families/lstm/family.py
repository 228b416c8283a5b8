"""The family of recurrent language models."""

from keras_attn.families.architecture_choice import named_sizes
from keras_attn.families.contract import Family
from keras_attn.families.layer_memory import LayerMemory
from keras_attn.models import RecurrentEncoder, RecurrentLanguageModel
from keras_attn.models.recurrent import RECURRENT_SIZES
from keras_attn.text.tokenizer_types import TOKENIZER_TYPES


class LSTMFamily(Family):
    """Unidirectional recurrent networks that predict the next token."""

    name, title = "lstm", "LSTM"
    backbone, backbone_name = RecurrentEncoder, "recurrent_encoder"
    task_models = {"causal_lm": RecurrentLanguageModel}
    encodes = False  # a vector contains no later token
    tokenizers = TOKENIZER_TYPES["bpe"]
    sizes = named_sizes(RECURRENT_SIZES)

    def default_arguments(self, run, shape):
        return {"bidirectional": False, "reduce": "last", "embedding_stddev": 0.1}

    def memory(self, task, architecture, heads, length, targets):
        hidden_dim, layers = architecture["hidden_dim"], architecture["num_layers"]
        layer = 10 * length * hidden_dim  # gates, states and inputs
        return LayerMemory(
            parameters=8 * layers * hidden_dim**2 + architecture["vocabulary_size"] * hidden_dim,
            inputs=layers * length * hidden_dim,
            activations=layers * layer,
            layer=layer,
        )


FAMILY = LSTMFamily()
