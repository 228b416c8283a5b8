"""GPT-2: the decoder, and the language model on it."""

from keras_attn.models.gpt2.decoder import GPT2, GPT2_SIZES
from keras_attn.models.gpt2.language_model import GPT2LanguageModel

__all__ = ["GPT2", "GPT2_SIZES", "GPT2LanguageModel"]
