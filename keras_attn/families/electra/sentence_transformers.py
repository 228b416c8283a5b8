"""Embedding models in folders of sentence-transformers, with an ELECTRA of `transformers`."""

from keras_attn.families.electra import huggingface
from keras_attn.families.sentence_transformers import HEADS, folder_format

__all__ = ["HEADS", "read", "write"]

read, write = folder_format(huggingface)
