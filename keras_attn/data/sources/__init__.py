"""Data sources for text and tables: files, TFDS and docstrings."""
