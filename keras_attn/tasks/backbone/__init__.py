"""Backbones without a head, whose outputs are vectors of texts."""
