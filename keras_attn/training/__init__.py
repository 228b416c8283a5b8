"""The training loop: strategy, step, optimizer, schedule, checkpoints."""
