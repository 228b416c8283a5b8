"""Export of models to other runtimes."""
