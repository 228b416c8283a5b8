"""Replaced-token detection, the pretraining of ELECTRA."""
