"""Tokenizers and vocabulary building (needs tensorflow-text)."""
