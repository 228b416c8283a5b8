"""ModernBERT: the encoder and its models for classification and tagging.

`BertPretrainer` is its masked language model.
"""

from keras_attn.models.modernbert.classifiers import ModernBertClassifier, ModernBertTokenClassifier
from keras_attn.models.modernbert.encoder import MODERNBERT_SIZES, ModernBertEncoder

__all__ = [
    "MODERNBERT_SIZES",
    "ModernBertClassifier",
    "ModernBertEncoder",
    "ModernBertTokenClassifier",
]
