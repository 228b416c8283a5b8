"""The family of Bahdanau's encoder-decoders."""

from keras_attn.families.contract import Family
from keras_attn.families.layer_memory import LayerMemory
from keras_attn.models import BahdanauSeq2Seq
from keras_attn.text.tokenizer_types import TOKENIZER_TYPES


class BahdanauFamily(Family):
    """Recurrent encoder-decoders with attention before each step (Bahdanau et al., 2015)."""

    name, title = "bahdanau", "Bahdanau's encoder-decoder"
    backbone, backbone_name = BahdanauSeq2Seq, "bahdanau_seq2seq"
    task_models = {"translation": None}
    encodes = False  # its inputs are pairs of sequences
    tokenizers = TOKENIZER_TYPES["subwords"]
    sizes = {
        "tiny": {"units": 128},
        "mini": {"units": 256},
        "small": {"units": 512},
        "base": {"units": 1000, "embedding_dim": 620, "readout_units": 500},
    }
    free_arguments = ("dropout", "label_smoothing", "teacher_forcing_ratio")

    def min_parameters(self, architecture):
        embedding_dim = architecture.get("embedding_dim") or architecture["units"]
        return 2 * architecture["vocabulary_size"] * embedding_dim

    def output_dim(self, architecture):
        return architecture.get("readout_units") or architecture["units"]

    def memory(self, task, architecture, heads, length, targets):
        units = architecture["units"]
        embedding_dim = architecture.get("embedding_dim") or units
        readout = architecture.get("readout_units") or units
        # Gates and states of both directions and of the decoder, and the hidden units of the score.
        layer = length * (3 * 10 * units + length * units)
        return LayerMemory(
            parameters=30 * units**2
            + architecture["vocabulary_size"] * (2 * embedding_dim + readout),
            inputs=2 * length * units,
            activations=layer,
            layer=layer,
        )


FAMILY = BahdanauFamily()
