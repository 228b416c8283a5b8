"""Backbones without a head, for embeddings."""
