"""Learning rate schedules: warmup, then decay, in NumPy."""

import numpy as np

from keras_attn.errors import UserError

NAMES = ("linear", "cosine", "constant", "inverse_sqrt", "wsd")


def learning_rates(progress, *, peak, warmup_fraction=0.1, schedule="linear", decay_fraction=0.1):
    """Returns the learning rates at points of a run.

    The rate rises linearly from 0 to `peak` over the first `warmup_fraction` of the run. Then it
    falls to 0 linearly or along half a cosine, stays constant, or falls with the inverse square
    root of the progress (Vaswani et al., 2017, eq. 3). With "wsd" (warmup-stable-decay) it stays
    constant until the last `decay_fraction` of the run, in which it falls to 0 as 1 - sqrt of the
    fraction of the decay (Hägele et al., Scaling Laws and Compute-Optimal Training Beyond Fixed
    Training Durations, 2024, section 3).

    Args:
        progress: Array of fractions of the run, from 0 to 1. Step i of N (counted from 0) is at
            (i + 1) / (N + 1), so that neither the first nor the last step has a rate of 0.
        peak: Maximum rate.
        warmup_fraction: Fraction of the run with warmup.
        schedule: One of `NAMES`.
        decay_fraction: Fraction of the run with decay, for "wsd".

    Returns:
        float32 array with the shape of `progress`.
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
    elif schedule == "wsd":
        decayed = (progress - 1.0 + decay_fraction) / max(decay_fraction, 1e-9)
        decay = 1.0 - np.sqrt(np.clip(decayed, 0.0, 1.0))
    else:
        raise UserError(f"train.schedule must be one of {', '.join(NAMES)}. Received: {schedule}")
    rise = progress / warmup_fraction if warmup_fraction > 0 else np.ones_like(progress)
    return (peak * np.minimum(1.0, np.where(rise < 1.0, rise, decay))).astype(np.float32)
