"""BERT: the encoder and its models for pretraining, classification and question answering."""

from keras_attn.models.bert.classifier import BertClassifier
from keras_attn.models.bert.encoder import BERT_SIZES, BertEncoder
from keras_attn.models.bert.pretrainer import BertPretrainer
from keras_attn.models.bert.question_answerer import BertQuestionAnswerer

__all__ = ["BERT_SIZES", "BertClassifier", "BertEncoder", "BertPretrainer", "BertQuestionAnswerer"]
