"""The family of Luong's encoder-decoders."""

from keras_attn.families.contract import Family
from keras_attn.families.layer_memory import LayerMemory
from keras_attn.models import LuongSeq2Seq
from keras_attn.text.tokenizer_types import TOKENIZER_TYPES


class LuongFamily(Family):
    """Recurrent encoder-decoders with attention after each step (Luong et al., 2015)."""

    name, title = "luong", "Luong's encoder-decoder"
    backbone, backbone_name = LuongSeq2Seq, "luong_seq2seq"
    task_models = {"translation": None}
    encodes = False  # its inputs are pairs of sequences
    tokenizers = TOKENIZER_TYPES["subwords"]
    sizes = {
        "tiny": {"units": 128, "num_layers": 1},
        "mini": {"units": 256, "num_layers": 1},
        "small": {"units": 512, "num_layers": 2},
        "base": {"units": 1000, "num_layers": 4},
    }
    free_arguments = ("dropout", "label_smoothing", "teacher_forcing_ratio")

    def min_parameters(self, architecture):
        embedding_dim = architecture.get("embedding_dim") or architecture["units"]
        return 2 * architecture["vocabulary_size"] * embedding_dim

    def output_dim(self, architecture):
        return architecture["units"]

    def memory(self, task, architecture, heads, length, targets):
        units, layers = architecture["units"], architecture["num_layers"]
        embedding_dim = architecture.get("embedding_dim") or units
        # Gates, states and inputs of the cells of both sides, and the attention weights.
        layer = length * (2 * 10 * units + length)
        return LayerMemory(
            parameters=layers * 2 * 9 * units**2
            + architecture["vocabulary_size"] * (2 * embedding_dim + units),
            inputs=2 * layers * length * units,
            activations=layers * layer,
            layer=layer,
        )


FAMILY = LuongFamily()
