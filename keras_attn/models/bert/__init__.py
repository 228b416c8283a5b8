"""BERT: the encoder, and the models for its pretraining and for classification."""

from keras_attn.models.bert.classifier import BertClassifier
from keras_attn.models.bert.encoder import BERT_SIZES, BertEncoder
from keras_attn.models.bert.pretrainer import BertPretrainer

__all__ = ["BERT_SIZES", "BertClassifier", "BertEncoder", "BertPretrainer"]
