"""Recurrent encoder-decoders with attention."""

from keras_attn.models.recurrent.bahdanau_seq2seq import BahdanauSeq2Seq
from keras_attn.models.recurrent.luong_seq2seq import LuongSeq2Seq

__all__ = ["BahdanauSeq2Seq", "LuongSeq2Seq"]
