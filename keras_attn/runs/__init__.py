"""Runs: from a config to results."""
