"""Checkpoints of other libraries, and trained models from any source."""
