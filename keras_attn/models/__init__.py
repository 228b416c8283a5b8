"""Keras models, on any Keras backend."""

from keras_attn.models.bert import BertClassifier, BertEncoder, BertPretrainer

__all__ = ["BertClassifier", "BertEncoder", "BertPretrainer"]
