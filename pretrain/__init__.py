"""Commands: `python -m pretrain`, `python -m pretrain.prepare`."""
