"""Recurrent layers with attention, and conversions between vectors and sequences."""

from keras_attn.layers.recurrent.attention_cell import AttentionCell
from keras_attn.layers.recurrent.bahdanau_decoder_cell import BahdanauDecoderCell
from keras_attn.layers.recurrent.intra_attention_lstm_cell import IntraAttentionLSTMCell
from keras_attn.layers.recurrent.recurrent_decoder import RecurrentDecoder
from keras_attn.layers.recurrent.sequence_to_sequence import SequenceToSequence
from keras_attn.layers.recurrent.sequence_to_vector import SequenceToVector
from keras_attn.layers.recurrent.vector_to_sequence import VectorToSequence

__all__ = [
    "AttentionCell",
    "BahdanauDecoderCell",
    "IntraAttentionLSTMCell",
    "RecurrentDecoder",
    "SequenceToSequence",
    "SequenceToVector",
    "VectorToSequence",
]
