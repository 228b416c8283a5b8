"""The hierarchical attention network."""
