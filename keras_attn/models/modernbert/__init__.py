"""ModernBERT: the encoder and its models for pretraining and for finetuning tasks."""

from keras_attn.models.modernbert.classifiers import (
    ModernBertClassifier,
    ModernBertQuestionAnswerer,
    ModernBertTokenClassifier,
)
from keras_attn.models.modernbert.encoder import MODERNBERT_SIZES, ModernBertEncoder
from keras_attn.models.modernbert.pretrainer import ModernBertPretrainer

__all__ = [
    "MODERNBERT_SIZES",
    "ModernBertClassifier",
    "ModernBertEncoder",
    "ModernBertPretrainer",
    "ModernBertQuestionAnswerer",
    "ModernBertTokenClassifier",
]
