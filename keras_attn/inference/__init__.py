"""Trained models in use: texts in, predictions out."""
