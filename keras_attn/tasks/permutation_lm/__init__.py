"""Permutation language modeling."""
