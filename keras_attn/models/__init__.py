"""Keras models, on any Keras backend."""

from keras_attn.models.bert import (
    BertClassifier,
    BertEncoder,
    BertPretrainer,
    BertQuestionAnswerer,
)
from keras_attn.models.transformer import Transformer

__all__ = ["BertClassifier", "BertEncoder", "BertPretrainer", "BertQuestionAnswerer",
           "Transformer"]
