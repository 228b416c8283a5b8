"""Keras models, on any Keras backend."""

from keras_attn.models.bert import (
    BertClassifier,
    BertEncoder,
    BertPretrainer,
    BertQuestionAnswerer,
)

__all__ = ["BertClassifier", "BertEncoder", "BertPretrainer", "BertQuestionAnswerer"]
