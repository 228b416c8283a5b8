"""Tasks, one package each."""
