"""How much memory a training step takes, and the micro-batches with which it fits."""

import dataclasses

from keras_attn.counts import counted
from keras_attn.errors import UserError
from keras_attn.ops.cross_entropy import BLOCK_LOGITS

# Measured: see docs/memory.md.
RESERVE = 0.9  # of free memory
OVERHEAD = 120e6  # bytes: graphs, threads and libraries
HALF = 0.8  # of the bytes of float32; norms, softmax and losses stay in it
XLA = 1.2  # of the activations without it


@dataclasses.dataclass(frozen=True)
class StepSize:
    """Numbers of values that a training step holds.

    Attributes:
        parameters: Of the model.
        table: Of the output embeddings.
        inputs: Inputs of all layers, for a row.
        activations: What all layers keep of a row for the gradient.
        layer: What the largest layer keeps.
        logits: Of a row.
    """

    parameters: int
    table: int
    inputs: int
    activations: int
    layer: int
    logits: int

    def bytes(self, rows, *, accumulate=1, remat=False, half=False, jit=False):
        """The most memory that a step takes.

        Args:
            rows: Of a micro-batch.
            accumulate: Number of micro-batches.
            remat: Whether layers are computed again.
            half: Whether activations are of half precision.
            jit: Whether XLA compiles the step.
        """
        # Weights, gradients and two moments; and the sum of gradients over micro-batches.
        state = (4 + 2 * (accumulate > 1)) * self.parameters
        kept = self.inputs + self.layer if remat else self.activations
        # The gradient of a layer needs most of its activations once more.
        activations = rows * (kept + 0.75 * self.layer)
        activations *= (HALF if half else 1) * (XLA if jit else 1)
        # Logits, their gradient and what is between; of several blocks one is kept besides.
        logits = rows * self.logits
        losses = 3 * logits if logits <= BLOCK_LOGITS else 4 * BLOCK_LOGITS
        losses += 2 * self.table
        return int(OVERHEAD + 4 * (state + activations + losses))

    def evaluation_bytes(self, rows, half=False):
        """The most memory that the evaluation of a batch takes, beside weights and optimizer."""
        activations = rows * 2 * self.layer * (HALF if half else 1)
        losses = 2 * min(rows * self.logits, BLOCK_LOGITS)
        return int(OVERHEAD + 4 * (3 * self.parameters + activations + losses))


def step_size(task, family, architecture, config, heads=None):
    """The `StepSize` of a run, of rows of the greatest length.

    Args:
        task: `Task`.
        family: `Family`.
        architecture: Arguments of the backbone, with `vocabulary_size`.
        config: ConfigDict of the run.
        heads: Arguments of the head; None: its parameters are not counted.
    """
    targets, vocabulary = task.targets(config.data), architecture["vocabulary_size"]
    layers = family.memory(architecture, config.data.length, targets)
    return StepSize(
        parameters=layers.parameters + _head_parameters(task, architecture, heads),
        table=vocabulary * architecture["hidden_dim"] if targets else 0,
        inputs=layers.inputs,
        activations=layers.activations,
        layer=layers.layer,
        logits=targets * vocabulary,
    )


def _head_parameters(task, architecture, heads):
    """Number of parameters of the dense layers of the head, which may have many classes."""
    layers = (None if heads is None else task.head_layers(heads)) or {}
    return sum((architecture["hidden_dim"] + 1) * size for _, size in layers.values())


def choose_sizes(task, family, architecture, config, engine, say, heads=None):
    """Chooses the micro-batches of a step and the rows of an evaluation batch.

    Args:
        task, family, architecture, config: See `step_size`.
        engine: `Engine` of the run.
        say: Takes a line of text.
        heads: See `step_size`.

    Returns:
        `train.accumulate`, the given one or the least with which a step fits into free memory; and
        `eval.batch_size`, less than it was if a batch would not fit.

    Raises:
        UserError: If `train.accumulate` is not set and a step fits with none.
    """
    free = engine.free_memory()
    if free is None:
        return config.train.accumulate or 1, config.eval.batch_size
    size, rows = step_size(task, family, architecture, config, heads), config.eval.batch_size
    return (
        _accumulate(size, config, engine, free, say),
        rows if task.decodes else _evaluated_rows(size, config, engine, free, say),
    )


def _evaluated_rows(size, config, engine, free, say):
    rows, replicas = config.eval.batch_size, engine.num_replicas

    def needed(rows):
        return size.evaluation_bytes(rows // replicas, config.train.precision != "float32")

    fitting = rows
    while needed(fitting) > RESERVE * free and fitting % (2 * replicas) == 0:
        fitting //= 2
    if fitting < rows:
        say(
            f"eval.batch_size={fitting}: a batch of {counted(rows, 'row')} would need about "
            f"{_gigabytes(needed(rows))}, {_gigabytes(free)} are available"
        )
    return fitting


def _accumulate(size, config, engine, free, say):
    train, replicas, given = config.train, engine.num_replicas, config.train.accumulate
    rows = (
        train.batch_size
        if "batch_size" in train
        else max(1, train.batch_tokens // config.data.length)
    )

    def needed(accumulate):
        return size.bytes(
            -(-rows // (replicas * accumulate)),
            accumulate=accumulate,
            remat=train.remat,
            half=train.precision != "float32",
            jit=train.jit,
        )

    fewest = given or 1
    if needed(fewest) <= RESERVE * free:
        return fewest
    wanted = (
        f"a step of {counted(rows, 'row')} would need about {_gigabytes(needed(fewest))}, "
        f"{_gigabytes(free)} are available"
    )
    if given:
        say(
            f"warning: with train.accumulate={given} {wanted}; a greater train.accumulate "
            f"or train.remat=True needs less"
        )
        return given
    share = max(1, rows // replicas)
    for accumulate in range(2, share + 1):
        if (share % accumulate == 0 or "batch_tokens" in train) and (
            needed(accumulate) <= RESERVE * free
        ):
            say(f"train.accumulate={accumulate}: {wanted}")
            return accumulate
    raise UserError(
        f"Not enough memory: {wanted}, and with one row at a time "
        f"{_gigabytes(needed(share))}. {_advice(train)}"
    )


def _advice(train):
    remat = "" if train.remat else "Set train.remat=True, or "
    return (
        f"{remat}{'lower' if remat else 'Lower'} data.length or model.size, or train on a "
        "machine with more memory."
    )


def _gigabytes(number):
    return f"{number / 1e9:,.1f} GB" if number < 10e9 else f"{number / 1e9:,.0f} GB"
