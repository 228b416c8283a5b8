"""The interface between the trainer and the engines that run its steps.

See docs/adding_an_engine.md.
"""

import abc
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_attn.training import process_memory
from keras_attn.training.optimizers import make_optimizer
from keras_attn.training.variables import read_values


class Step(abc.ABC):
    """Updates a task model on global batches, with many steps per call.

    A step differentiates the sum over losses of error / weight, both summed over the global batch,
    clips the gradients by their global norm, and applies them only if loss and norm are finite.

    Attributes:
        engine: The `Engine` that made the step.
        model: A built task model with `loss_weights`, `loss_errors` and `metric_sums`.
        optimizer: Result of `Engine.make_optimizer`; its learning rate is set in every step. Its
            `variables` are counted as memory.
        max_steps: Maximum number of steps of one call of `run`.
    """

    engine: "Engine"
    model: keras.Model
    optimizer: Any
    max_steps: int = 1024

    @abc.abstractmethod
    def feed(self, batches: Any, first_step: int) -> Any:
        """Starts to read global batches from `first_step` on.

        Args:
            batches: `StreamBatches` or `TableBatches`.
            first_step: Number of the first batch, counted from 0.

        Returns:
            An argument of `run`.
        """

    @abc.abstractmethod
    def run(
        self, feed: Any, first_step: int, learning_rates: Sequence[float]
    ) -> list[dict[str, float]]:
        """Takes one step per learning rate.

        Args:
            feed: Result of `feed`, whose next batch is number `first_step`.
            first_step: Number of the first step, counted from 0; dropout masks depend on it.
            learning_rates: At most `max_steps`.

        Returns:
            A record for each step: `loss`, `gradient_norm`, `tokens` (the sum of `padding_mask`),
            `<name>_loss` for each loss, and every metric, as floats. Further entries of the engine
            are also written to metrics.jsonl. If a loss or gradient is not finite, the last
            record is that of this step, which was not applied, and the list is shorter than
            `learning_rates`.
        """

    @abc.abstractmethod
    def variables(self) -> dict[str, keras.Variable]:
        """Returns the variables of a checkpoint by path; see `variables_by_path`.

        Their values must be current after each `run`. The trainer may assign values to them and to
        the variables of `model` before and between calls of `run`, which must use these values.
        """


class Evaluator(abc.ABC):
    """Evaluates a task model with the current values of its variables."""

    @abc.abstractmethod
    def run(
        self, batches: Any, stop: Callable[[], bool] = lambda: False
    ) -> tuple[dict[str, float], np.ndarray | None] | None:
        """Evaluates all batches.

        Args:
            batches: `StreamBatches` or `TableBatches` of one epoch.
            stop: Function called between batches on all workers; if it returns True, the
                evaluation ends.

        Returns:
            None if `stop` ended the evaluation, else `(results, rows)`. `results` has `loss`,
            `<name>_loss` and every metric, each a weighted mean over all examples. `rows` is the
            requested output of all rows in the order of the batches, padded with 0 to the same
            length, or None. `keras_attn.training.evaluation` computes both from sums of batches.
        """


class Engine(abc.ABC):
    """The devices and workers of a run.

    The constructor takes the options that the module `fields` of the engine declares. It raises a
    `UserError` if the devices do not exist.

    Attributes:
        num_replicas: Number of replicas, which divide the rows of a global batch.
        replicas_per_request: Number of replicas that divide the rows of one call of
            `batches.batch`; packed batches then have a multiple of this number of rows.
        is_chief: Whether this process makes the decisions and writes the files.
        fixed_shapes: Whether all batches must have the same shape.
        reads_weights: Whether each worker can read all weights during training.
    """

    num_replicas: int = 1
    replicas_per_request: int = 1
    is_chief: bool = True
    fixed_shapes: bool = False
    reads_weights: bool = True

    @abc.abstractmethod
    def describe(self) -> str:
        """Returns a description of the devices, such as `2 x GPU`."""

    def free_memory(self) -> int | None:
        """Returns the free memory of each device in bytes; None if unknown.

        The default assumes CPU devices, which share the memory of the machine.
        """
        free = process_memory.free_memory()
        return free and free // self.num_replicas

    def peak_memory(self) -> int | None:
        """Returns the peak memory of a device, or of this process, in bytes; None if unknown."""
        return process_memory.peak_memory()

    def make_optimizer(
        self,
        name: str,
        model: keras.Model,
        *,
        weight_decay: float = 0.01,
        beta_2: float = 0.999,
        layer_decay: float = 1.0,
        rate_factors: Mapping[str, float] | None = None,
    ) -> Any:
        """Makes and builds an optimizer; the default is one of `keras_attn.training.optimizers`.

        Args:
            name: "adamw", "lamb" or "muon".
            model: A built task model, created in `scope`.
            weight_decay: Decoupled weight decay of all weights except biases and the scales of
                normalization layers.
            beta_2: Decay rate of the second moment.
            layer_decay: Factor of the learning rate from each layer of the backbone to the one
                below; heads have the full rate.
            rate_factors: Factors of the learning rate of layers of the task model, by name. These
                layers have no weight decay.
        """
        return make_optimizer(
            name,
            model,
            weight_decay=weight_decay,
            beta_2=beta_2,
            layer_decay=layer_decay,
            rate_factors=rate_factors,
        )

    @abc.abstractmethod
    def make_step(
        self,
        model: keras.Model,
        optimizer: Any,
        *,
        accumulate: int = 1,
        clip_norm: float | None = 1.0,
        jit: bool = False,
        seed: int = 0,
    ) -> Step:
        """Makes the training step of a model.

        Args:
            model: A built task model, created in `scope`.
            optimizer: Result of `make_optimizer`, created in `scope`.
            accumulate: Number of micro-batches into which the rows of a replica are split.
            clip_norm: Maximum global norm of the gradients; None or 0: no clipping.
            jit: Whether XLA compiles the step.
            seed: Random seed of dropout; masks differ by step, micro-batch and replica.
        """

    @abc.abstractmethod
    def make_evaluator(
        self, model: keras.Model, *, jit: bool = False, rows: str | None = None
    ) -> Evaluator:
        """Makes the evaluator of a model.

        Args:
            model: A built task model, created in `scope`.
            jit: Whether XLA compiles the evaluation.
            rows: Name of an output to return for all rows, such as `"logits"`.
        """

    def scope(self) -> contextlib.AbstractContextManager:
        """Returns the context in which models and optimizers are created, and values assigned."""
        return contextlib.nullcontext()

    def broadcast(self, values: Sequence[float] | np.ndarray) -> np.ndarray:
        """Returns the values of the chief on every worker, as a float64 vector.

        Decisions that depend on a clock or a signal would otherwise differ between workers.
        """
        return np.asarray(values, np.float64)

    def any(self, flag: Any) -> bool:
        """Returns whether `flag` is true on any worker."""
        return bool(flag)

    def read_values(
        self, variables: Mapping[str, keras.Variable], *, everywhere: bool = True
    ) -> dict[str, np.ndarray]:
        """Returns the values of variables by path; called on all workers.

        Args:
            variables: Variables by path.
            everywhere: Whether all workers need the values, or only the chief.
        """
        return read_values(variables if everywhere or self.is_chief else {})

    def gather(self, model: keras.Model) -> None:
        """Makes the weights of a trained model readable on every worker; called on all workers."""
        return None

    def barrier(self) -> None:
        """Waits for all workers; a worker that dies ends the wait with an error."""
        self.broadcast([0.0])
