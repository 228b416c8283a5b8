"""Tagging: a label for each word, such as named entities, parts of speech or chunks."""
