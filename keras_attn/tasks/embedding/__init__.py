"""Embeddings of texts with a head: pooling, dense layers and normalization."""
