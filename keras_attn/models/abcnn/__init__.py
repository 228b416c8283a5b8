"""ABCNN: convolutional networks for sentence pairs."""

from keras_attn.models.abcnn.abcnn import ABCNN
from keras_attn.models.abcnn.classifier import ABCNNClassifier
from keras_attn.models.abcnn.encoder import ABCNNEncoder

__all__ = ["ABCNN", "ABCNNClassifier", "ABCNNEncoder"]
