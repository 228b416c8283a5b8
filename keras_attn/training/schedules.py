"""Learning rates: warmup, then decay, in NumPy."""

import numpy as np

from keras_attn.errors import UserError

NAMES = ("linear", "cosine", "constant", "inverse_sqrt")


def learning_rates(progress, *, peak, warmup_fraction=0.1, schedule="linear"):
    """Learning rate at given points of a run.

    Rises linearly from 0 to `peak` over the first `warmup_fraction` of the
    run, then falls to 0 along a line or half a cosine, or stays, or falls as
    the square root of the progress rises (Vaswani et al., 2017, eq. 3).

    Args:
        progress: Array of fractions of the run, 0 to 1. By steps, step i of N
            (counted from 0) is at (i + 1) / (N + 1), so that neither the
            first nor the last step has a rate of 0; by the clock, the time.
        peak: The highest rate.
        warmup_fraction: Share of the run that warms up.
        schedule: One of `NAMES`.

    Returns:
        float32 array of the shape of `progress`.
    """
    progress = np.clip(np.asarray(progress, np.float64), 0.0, 1.0)
    left = (1.0 - progress) / max(1.0 - warmup_fraction, 1e-9)
    if schedule == "linear":
        decay = left
    elif schedule == "cosine":
        decay = 0.5 - 0.5 * np.cos(np.pi * np.minimum(left, 1.0))
    elif schedule == "constant":
        decay = np.ones_like(left)
    elif schedule == "inverse_sqrt":
        decay = np.sqrt(warmup_fraction / np.maximum(progress, 1e-9))
    else:
        raise UserError(f"train.schedule must be one of {', '.join(NAMES)}. Received: {schedule}")
    rise = progress / warmup_fraction if warmup_fraction > 0 else np.ones_like(progress)
    return (peak * np.minimum(1.0, np.where(rise < 1.0, rise, decay))).astype(np.float32)
