"""Layers that tell positions, and distances."""
