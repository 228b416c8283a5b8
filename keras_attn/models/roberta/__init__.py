"""RoBERTa: its classifier; the encoder and the other models are those of BERT."""

from keras_attn.models.roberta.classifier import RobertaClassifier

__all__ = ["RobertaClassifier"]
