"""Weights of other libraries, and trained models wherever they come from."""
