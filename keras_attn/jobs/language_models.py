"""Trained language models to start from."""

from keras_attn.jobs.saved_run import SavedRun
from keras_attn.models import GPT2, GPT2LanguageModel
from keras_attn.text.byte_pairs import BytePairTokenizer

KIND = "language_modeling"


def build_language_model(architecture, dtype="float32", seed=None):
    """A GPT-2 with its language model, by the arguments of the former."""
    backbone = GPT2(**architecture, dtype=dtype, seed=seed)
    model = GPT2LanguageModel(backbone, dtype=dtype)
    model.build()
    return model


class SavedLanguageModel(SavedRun):
    """A language model to start from; see `SavedRun`.

    Attributes:
        tokenizer: The `BytePairTokenizer`.
    """

    KINDS, NAME = (KIND,), "a language model"

    def __init__(self, path):
        super().__init__(path)
        self.tokenizer = BytePairTokenizer.read(path)

    def make_model(self):
        """The trained model."""
        model = build_language_model(self.architecture)
        self.assign(model)
        return model
