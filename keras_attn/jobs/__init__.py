"""A config in, a workdir out: what the entry points call."""
