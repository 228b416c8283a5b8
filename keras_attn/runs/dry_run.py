"""Estimates of the memory and time of a run, measured on some of its steps."""

import time

import numpy as np

from keras_attn.counts import counted
from keras_attn.training.records import duration

MEASURED_SECONDS = 5.0
MAX_MEASURED = 100


def measure(step, batches, total_steps, minutes, say):
    """Runs some steps with a learning rate of 0, and prints estimates for the whole run.

    Args:
        step: `Step` of an engine.
        batches: Training batches of the run.
        total_steps: Number of steps of the run; None if `minutes` ends it.
        minutes: Length of the run in minutes, if `total_steps` is None.
        say: Function that prints a line.

    Returns:
        Dict: `parameters`, `state_bytes` (weights, gradients and optimizer), `peak_bytes` (of the
        first GPU, or else of this process; None if unknown), `steps`, `epochs`, `tokens` (without
        padding), `seconds_per_step`, `seconds`.
    """

    def take(count):
        """Runs the first `count` steps."""
        feed = step.feed(batches, 0)
        begin = time.monotonic()
        rows = step.run(feed, 0, np.zeros(count))
        return rows, time.monotonic() - begin

    say("measuring the first steps")
    take(1)  # compiles
    rows, seconds = take(1)
    count = int(step.engine.broadcast([MEASURED_SECONDS / seconds])[0])
    if count > 1:
        count = min(count, MAX_MEASURED)
        if not (batches.one_length and batches.one_count):
            take(count)  # compiles for each shape
        rows, seconds = take(count)
    seconds_per_step = float(step.engine.broadcast([seconds / len(rows)])[0])
    steps = total_steps
    if steps is None:
        steps = max(1, round(60.0 * minutes / seconds_per_step))
    trained, peak = step.model.trainable_variables, step.engine.peak_memory()
    # The gradient of a variable has the same size.
    sizes = [np.prod(v.shape, dtype=int) for v in [*trained, *trained, *step.optimizer.variables]]
    found = {
        "parameters": step.model.count_params(),
        "state_bytes": 4 * int(sum(sizes)),
        "peak_bytes": peak,
        "steps": steps,
        "epochs": steps / batches.num_batches,
        "tokens": round(steps * np.mean([row["tokens"] for row in rows])),
        "seconds_per_step": seconds_per_step,
        "seconds": steps * seconds_per_step,
    }
    total = "" if peak is None else f"; peak of the process or GPU: {_megabytes(peak)}"
    say(f"memory: {_megabytes(found['state_bytes'])} for weights, gradients and optimizer{total}")
    say(
        f"length: {counted(steps, 'step')}, {found['epochs']:.2f} epochs, "
        f"{counted(found['tokens'], 'token')}"
    )
    say(
        f"time: {duration(found['seconds'])}, {1000 * seconds_per_step:,.0f} ms per step, without "
        "compilation, validation and checkpoints"
    )
    return found


def _megabytes(number):
    return f"{number / 1e6:,.0f} MB" if number < 1e9 else f"{number / 1e9:,.1f} GB"
