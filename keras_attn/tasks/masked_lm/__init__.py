"""Masked language modeling, with next-sentence or sentence-order prediction."""
