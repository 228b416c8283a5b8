"""Memory of a training step, and the number of micro-batches with which it fits."""

import dataclasses

from keras_attn.counts import counted
from keras_attn.errors import UserError
from keras_attn.ops.cross_entropy import BLOCK_LOGITS

# Measured: see docs/memory.md.
RESERVE = 0.9  # usable fraction of free memory
OVERHEAD = 120e6  # bytes of graphs, threads and libraries
HALF = 0.8  # bytes relative to float32, in which norms, softmax and losses are still computed
XLA = 1.2  # activations relative to a step without XLA


@dataclasses.dataclass(frozen=True)
class StepSize:
    """Numbers of values that a training step stores.

    Attributes:
        parameters: Parameters of the model.
        output_embeddings: Parameters of the output embeddings.
        inputs: Inputs of all layers, per row.
        activations: Activations of all layers for the backward pass, per row.
        layer: Activations of the largest layer for the backward pass, per row.
        logits: Logits per row.
        teacher: `StepSize` of a teacher that predicts the rows of the step, or None.
    """

    parameters: int
    output_embeddings: int
    inputs: int
    activations: int
    layer: int
    logits: int
    teacher: "StepSize | None" = None

    def bytes(self, rows, *, accumulate=1, remat=False, half=False, jit=False):
        """Returns the peak memory of a step in bytes.

        Args:
            rows: Number of rows of a micro-batch.
            accumulate: Number of micro-batches.
            remat: Whether activations are recomputed in the backward pass.
            half: Whether activations have half precision.
            jit: Whether XLA compiles the step.
        """
        # Weights, gradients, two moments, and the sum of gradients over micro-batches.
        state = (4 + 2 * (accumulate > 1)) * self.parameters
        stored = self.inputs + self.layer if remat else self.activations
        # The backward pass of a layer needs most of its activations a second time.
        activations = rows * (stored + 0.75 * self.layer)
        activations *= (HALF if half else 1) * (XLA if jit else 1)
        # Logits, an intermediate result and the gradient; with several blocks, another block.
        logits = rows * self.logits
        losses = 3 * logits if logits <= BLOCK_LOGITS else 4 * BLOCK_LOGITS
        losses += 2 * self.output_embeddings
        if self.teacher:
            losses += self.teacher.prediction(rows, half)
        return int(OVERHEAD + 4 * (state + activations + losses))

    def prediction(self, rows, half=False):
        """Returns the number of values that the model stores to predict a batch.

        Args:
            rows: Number of rows.
            half: Whether activations have half precision.
        """
        activations = rows * 2 * self.layer * (HALF if half else 1)
        return self.parameters + activations + 2 * min(rows * self.logits, BLOCK_LOGITS)

    def evaluation_bytes(self, rows, half=False):
        """Returns the peak memory of the evaluation of a batch, with weights and optimizer."""
        return int(OVERHEAD + 4 * (2 * self.parameters + self.prediction(rows, half)))


def step_size(task, family, architecture, config, heads=None, teacher=None):
    """Returns the `StepSize` of a run, for rows of the maximum length.

    Args:
        task: `Task`.
        family: `Family`.
        architecture: Arguments of the backbone, with `vocabulary_size`.
        config: ConfigDict of the run.
        heads: Arguments of the head; None: its parameters are not counted.
        teacher: `TrainedModel` that runs in each step, or None.
    """
    known = teacher and (teacher.family, teacher.architecture, config, teacher.heads)
    targets, vocabulary = task.targets(config.data), architecture["vocabulary_size"]
    layers = family.memory(task.name, architecture, heads or {}, config.data.length, targets)
    dim, count = family.output_dim(architecture), task.sequences(config.data)
    return StepSize(
        parameters=layers.parameters + _head_parameters(task, dim, heads),
        output_embeddings=vocabulary * dim if targets else 0,
        inputs=count * layers.inputs,
        activations=count * layers.activations,
        layer=count * layers.layer,
        logits=targets * vocabulary,
        teacher=known and step_size(task, *known),
    )


def _head_parameters(task, dim, heads):
    """Returns the number of parameters of the head, which may have many classes."""
    layers = (None if heads is None else task.head_layers(heads)) or {}
    return sum((dim + 1) * size for _, size in layers.values())


def choose_sizes(task, family, architecture, config, engine, say, heads=None, teacher=None):
    """Chooses the number of micro-batches and the batch size of evaluation.

    Args:
        task, family, architecture, config: See `step_size`.
        engine: `Engine` of the run.
        say: Function that prints a line.
        heads, teacher: See `step_size`.

    Returns:
        `(accumulate, batch_size)`: `train.accumulate`, or if unset the smallest number with which
        a step fits into free memory; and `eval.batch_size`, lowered if a batch does not fit.

    Raises:
        UserError: If `train.accumulate` is unset and a step does not fit with any value.
    """
    free = engine.free_memory()
    if free is None:
        return config.train.accumulate or 1, config.eval.batch_size
    size = step_size(task, family, architecture, config, heads, teacher)
    rows = config.eval.batch_size
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
            f"eval.batch_size={fitting}: a batch of {counted(rows, 'row')} would require about "
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

    def needed(accumulate, remat=train.remat):
        return size.bytes(
            -(-rows // (replicas * accumulate)),
            accumulate=accumulate,
            remat=remat,
            half=train.precision != "float32",
            jit=train.jit,
        )

    fewest = given or 1
    if needed(fewest) <= RESERVE * free:
        return fewest
    wanted = (
        f"a step of {counted(rows, 'row')} would require about {_gigabytes(needed(fewest))}, "
        f"{_gigabytes(free)} are available"
    )
    share = max(1, rows // replicas)
    if given:
        ways = ["a higher train.accumulate"] * (given < share)
        ways += ["train.remat=True"] * (not train.remat)
        advice = f"; {' or '.join(ways)} requires less" if ways else ""
        say(f"warning: with train.accumulate={given} {wanted}{advice}")
        return given
    for accumulate in range(2, share + 1):
        if (share % accumulate == 0 or "batch_tokens" in train) and (
            needed(accumulate) <= RESERVE * free
        ):
            say(f"train.accumulate={accumulate}: {wanted}")
            return accumulate
    raise UserError(
        f"Not enough memory: {wanted}, and micro-batches of one row "
        f"{_gigabytes(needed(share))}. "
        f"{_advice(config, needed(share, remat=True) <= RESERVE * free)}"
    )


def _advice(config, remat):
    ways = ["set train.remat=True"] * (remat and not config.train.remat)
    ways += ["lower data.length", "lower model.size"]
    if config.pretrained:
        ways[-1] = "use a smaller pretrained model"
    ways = ", ".join([*ways, "or train on a machine with more memory."])
    return ways[0].upper() + ways[1:]


def _gigabytes(number):
    return f"{number / 1e9:,.1f} GB" if number < 10e9 else f"{number / 1e9:,.0f} GB"
