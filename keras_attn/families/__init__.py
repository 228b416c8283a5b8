"""Families of models, one package each."""
