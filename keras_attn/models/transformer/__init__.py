"""The Transformer encoder-decoder."""

from keras_attn.models.transformer.transformer import TRANSFORMER_SIZES, Transformer

__all__ = ["TRANSFORMER_SIZES", "Transformer"]
