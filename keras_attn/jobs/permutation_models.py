"""Pretrained XLNets to start from."""

from keras_attn.jobs.saved_run import SavedRun
from keras_attn.models import XLNet, XLNetPretrainer
from keras_attn.text.sentence_pieces import SentencePieceTokenizer

KIND = "permutation_modeling"


def build_permutation_model(architecture, dtype="float32", seed=None):
    """An XLNet that tells tokens in an order, by the arguments of its backbone."""
    backbone = XLNet(**architecture, dtype=dtype, seed=seed)
    model = XLNetPretrainer(backbone, dtype=dtype)
    model.build()
    return model


class SavedPermutationModel(SavedRun):
    """A pretrained XLNet to start from; see `SavedRun`.

    Attributes:
        tokenizer: The `SentencePieceTokenizer`.
        lowercase: Whether it lower-cases text.
    """

    KINDS, NAME = (KIND,), "a pretrained XLNet"

    def __init__(self, path):
        super().__init__(path)
        self.lowercase = self.config["data"]["lowercase"]
        self.tokenizer = SentencePieceTokenizer.read(path, self.lowercase)
