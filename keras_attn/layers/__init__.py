"""Keras layers, on any Keras backend."""

from keras_attn.layers.abcnn1_attention import ABCNN1Attention
from keras_attn.layers.abcnn2_pooling import ABCNN2Pooling
from keras_attn.layers.attention import Attention
from keras_attn.layers.attention_pooling import AttentionPooling
from keras_attn.layers.attentional_interaction import AttentionalInteraction
from keras_attn.layers.attentive_conv_pooling import AttentiveConvPooling
from keras_attn.layers.copy_distribution import CopyDistribution
from keras_attn.layers.crf import CRF
from keras_attn.layers.expanded_window_attention import ExpandedWindowAttention
from keras_attn.layers.hard_attention import HardAttention
from keras_attn.layers.hierarchical_attention import HierarchicalAttention
from keras_attn.layers.local_attention import LocalAttention
from keras_attn.layers.luong_attention import LuongAttention
from keras_attn.layers.mixed_attention import MixedAttention
from keras_attn.layers.multi_head_attention import MultiHeadAttention
from keras_attn.layers.pointer_attention import PointerAttention
from keras_attn.layers.positions.alibi_bias import AlibiBias
from keras_attn.layers.positions.learned_position_embedding import LearnedPositionEmbedding
from keras_attn.layers.positions.relative_position_bias import RelativePositionBias
from keras_attn.layers.positions.rotary_embedding import RotaryEmbedding
from keras_attn.layers.positions.sinusoidal_position_encoding import SinusoidalPositionEncoding
from keras_attn.layers.positionwise_feed_forward import PositionwiseFeedForward
from keras_attn.layers.recurrent import (
    AttentionCell,
    BahdanauDecoderCell,
    IntraAttentionLSTMCell,
    RecurrentDecoder,
    SequenceToSequence,
    SequenceToVector,
    VectorToSequence,
)
from keras_attn.layers.relative_attention import RelativeAttention
from keras_attn.layers.scores import (
    AdditiveScore,
    BilinearScore,
    ConcatScore,
    CosineScore,
    DotScore,
    LocationScore,
)
from keras_attn.layers.transformer_decoder_layer import TransformerDecoderLayer
from keras_attn.layers.transformer_encoder_layer import TransformerEncoderLayer
from keras_attn.layers.two_stream_attention import TwoStreamAttention
from keras_attn.layers.window_attention import WindowAttention

__all__ = [
    "ABCNN1Attention",
    "ABCNN2Pooling",
    "AdditiveScore",
    "AlibiBias",
    "Attention",
    "AttentionCell",
    "AttentionPooling",
    "AttentionalInteraction",
    "AttentiveConvPooling",
    "BahdanauDecoderCell",
    "BilinearScore",
    "CRF",
    "ConcatScore",
    "CopyDistribution",
    "CosineScore",
    "DotScore",
    "ExpandedWindowAttention",
    "HardAttention",
    "HierarchicalAttention",
    "IntraAttentionLSTMCell",
    "LearnedPositionEmbedding",
    "LocalAttention",
    "LocationScore",
    "LuongAttention",
    "MixedAttention",
    "MultiHeadAttention",
    "PointerAttention",
    "PositionwiseFeedForward",
    "RecurrentDecoder",
    "RelativeAttention",
    "RelativePositionBias",
    "RotaryEmbedding",
    "SequenceToSequence",
    "SequenceToVector",
    "SinusoidalPositionEncoding",
    "TransformerDecoderLayer",
    "TransformerEncoderLayer",
    "TwoStreamAttention",
    "VectorToSequence",
    "WindowAttention",
]
