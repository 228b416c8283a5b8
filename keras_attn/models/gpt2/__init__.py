"""GPT-2: the decoder, a language model and a classifier."""

from keras_attn.models.gpt2.classifier import GPT2Classifier
from keras_attn.models.gpt2.decoder import GPT2, GPT2_SIZES
from keras_attn.models.gpt2.language_model import GPT2LanguageModel

__all__ = ["GPT2", "GPT2_SIZES", "GPT2Classifier", "GPT2LanguageModel"]
