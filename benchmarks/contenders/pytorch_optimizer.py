"""The optimizer of the contenders in PyTorch."""

import torch


def adamw(model, learning_rate=1e-4, weight_decay=0.01, epsilon=1e-8):
    """Returns an AdamW without weight decay of biases and norms, as ours."""
    kernels = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [
        {"params": kernels, "weight_decay": weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=learning_rate, eps=epsilon, fused=True)
