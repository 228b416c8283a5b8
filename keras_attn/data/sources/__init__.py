"""Text and tables: files, TFDS, docstrings."""
