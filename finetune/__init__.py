"""Commands: `python -m finetune`, `python -m finetune.predict`."""
