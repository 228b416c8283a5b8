"""Shared code of pretraining tasks: config fields, splits, rows, masks and segment pairs."""
