"""The training loop: trainer, engines, optimizers, schedules, checkpoints."""
