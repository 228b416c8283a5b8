"""Encoders of LSTMs that attend to their own past states."""
