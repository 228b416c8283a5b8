"""Extractive question answering."""
