"""Recurrent encoders, and encoder-decoders with attention."""

from keras_attn.models.recurrent.attentive_cnn import AttentiveCNN
from keras_attn.models.recurrent.attentive_reader import AttentiveReader
from keras_attn.models.recurrent.bahdanau_seq2seq import BahdanauSeq2Seq
from keras_attn.models.recurrent.classifier import RecurrentClassifier
from keras_attn.models.recurrent.encoder import RECURRENT_SIZES, RecurrentEncoder
from keras_attn.models.recurrent.hierarchical_encoder import HierarchicalEncoder
from keras_attn.models.recurrent.language_model import RecurrentLanguageModel
from keras_attn.models.recurrent.luong_seq2seq import LuongSeq2Seq

__all__ = [
    "RECURRENT_SIZES",
    "AttentiveCNN",
    "AttentiveReader",
    "BahdanauSeq2Seq",
    "HierarchicalEncoder",
    "LuongSeq2Seq",
    "RecurrentClassifier",
    "RecurrentEncoder",
    "RecurrentLanguageModel",
]
