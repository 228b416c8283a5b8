"""The Transformer of Attention Is All You Need."""

from keras_attn.models.transformer.transformer import TRANSFORMER_SIZES, Transformer

__all__ = ["TRANSFORMER_SIZES", "Transformer"]
