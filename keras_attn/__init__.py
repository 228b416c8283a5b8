"""Attention mechanisms and BERT for Keras 3."""

__version__ = "0.1.0"
