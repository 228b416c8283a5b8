"""DistilBERT: its classifier; the encoder and the other models are those of BERT."""

from keras_attn.models.distilbert.classifier import DistilBertClassifier

__all__ = ["DistilBertClassifier"]
