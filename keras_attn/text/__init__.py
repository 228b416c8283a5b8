"""Tokenizers and vocabulary training (requires tensorflow-text)."""
