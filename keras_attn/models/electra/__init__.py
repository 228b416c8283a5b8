"""ELECTRA: the encoder, its classifier, and generator and discriminator for pretraining."""

from keras_attn.models.electra.classifier import ElectraClassifier
from keras_attn.models.electra.encoder import ELECTRA_SIZES, EMBEDDING_DIMS, ElectraEncoder
from keras_attn.models.electra.pretrainer import ElectraPretrainer

__all__ = [
    "ELECTRA_SIZES",
    "EMBEDDING_DIMS",
    "ElectraClassifier",
    "ElectraEncoder",
    "ElectraPretrainer",
]
