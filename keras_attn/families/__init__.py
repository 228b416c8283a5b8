"""Families of models: a folder for each."""
