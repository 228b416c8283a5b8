"""Convolutional networks with attention between two sentences."""
