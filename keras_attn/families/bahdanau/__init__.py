"""Bahdanau's recurrent encoder-decoder."""
