"""XLNet."""

from keras_attn.models.xlnet.classifier import XLNetClassifier
from keras_attn.models.xlnet.encoder import XLNET_SIZES, XLNet
from keras_attn.models.xlnet.pretrainer import XLNetPretrainer

__all__ = ["XLNET_SIZES", "XLNet", "XLNetClassifier", "XLNetPretrainer"]
