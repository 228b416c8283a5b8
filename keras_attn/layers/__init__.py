"""Keras layers, on any Keras backend."""

from keras_attn.layers.learned_position_embedding import LearnedPositionEmbedding
from keras_attn.layers.multi_head_attention import MultiHeadAttention
from keras_attn.layers.positionwise_feed_forward import PositionwiseFeedForward
from keras_attn.layers.sinusoidal_position_encoding import SinusoidalPositionEncoding
from keras_attn.layers.transformer_decoder_layer import TransformerDecoderLayer
from keras_attn.layers.transformer_encoder_layer import TransformerEncoderLayer

__all__ = [
    "LearnedPositionEmbedding",
    "MultiHeadAttention",
    "PositionwiseFeedForward",
    "SinusoidalPositionEncoding",
    "TransformerDecoderLayer",
    "TransformerEncoderLayer",
]
