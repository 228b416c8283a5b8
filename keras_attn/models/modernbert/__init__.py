"""ModernBERT: the encoder and its models for classification, tagging and question answering.

`BertPretrainer` is its masked language model.
"""

from keras_attn.models.modernbert.classifiers import (
    ModernBertClassifier,
    ModernBertQuestionAnswerer,
    ModernBertTokenClassifier,
)
from keras_attn.models.modernbert.encoder import MODERNBERT_SIZES, ModernBertEncoder

__all__ = [
    "MODERNBERT_SIZES",
    "ModernBertClassifier",
    "ModernBertEncoder",
    "ModernBertQuestionAnswerer",
    "ModernBertTokenClassifier",
]
