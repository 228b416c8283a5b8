"""Luong's recurrent encoder-decoder."""
