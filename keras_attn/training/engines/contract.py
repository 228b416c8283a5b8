"""The interface between the trainer and the engines that run its steps.

See docs/adding_an_engine.md.
"""

import abc
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from keras_attn.training import memory
from keras_attn.training.optimizers import make_optimizer


class Step(abc.ABC):
    """Updates a task model on global batches, many steps a call.

    A step differentiates the sum over losses of error / weight, both summed over the global batch,
    clips the gradients by their global norm, and applies them only if loss and norm are finite.

    Attributes:
        engine: The `Engine` that made it.
        model: A built task model with `loss_weights`, `loss_errors` and `metric_sums`.
        optimizer: Result of `Engine.make_optimizer`; its learning rate is set in every step. Its
            `variables` are counted as memory.
        accumulate: Micro-batches into which the rows of a replica are split.
        max_steps: Most steps of one call of `run`.
    """

    engine: "Engine"
    model: keras.Model
    optimizer: Any
    accumulate: int = 1
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
            feed: Result of `feed`, whose next batch is that of `first_step`.
            first_step: Number of the first step, counted from 0; dropout masks depend on it.
            learning_rates: At most `max_steps`.

        Returns:
            A record for each step taken: `loss`, `gradient_norm`, `tokens` (those of
            `padding_mask`), `<name>_loss` for each loss, and every metric, as floats; numbers of
            the engine's own are written to metrics.jsonl, too. The list is shorter than
            `learning_rates` if a loss or gradient was not finite: the last record is of that
            step, which was not applied.
        """

    @abc.abstractmethod
    def variables(self) -> dict[str, keras.Variable]:
        """Returns the variables that a checkpoint holds, by path; see `variables_by_path`.

        Their values are current after each `run`. The trainer assigns values to them, and to the
        variables of `model`, before and between calls of `run`, which starts from these.
        """


class Evaluator(abc.ABC):
    """Evaluates a task model without training it, with the values that its variables have now."""

    @abc.abstractmethod
    def run(
        self, batches: Any, stop: Callable[[], bool] = lambda: False
    ) -> tuple[dict[str, float], np.ndarray | None] | None:
        """Evaluates all batches.

        Args:
            batches: `StreamBatches` or `TableBatches` of one epoch.
            stop: Called between batches, on all workers alike; True ends the evaluation.

        Returns:
            None if `stop` ended it, else `(results, rows)`. `results` has `loss`, `<name>_loss`
            and every metric, each a weighted mean over all examples. `rows` is the gathered
            output, in the order of the batches, padded with 0 where they differ in length; None
            if no output was asked for. `keras_attn.training.evaluation` computes both from sums
            of each batch.
        """


class Engine(abc.ABC):
    """The devices and workers of a run.

    The constructor takes the options that the module `fields` of the engine declares. It raises a
    `UserError` if the devices do not exist.

    Attributes:
        num_replicas: Replicas among which the rows of a global batch are divided.
        is_chief: Whether this process takes the decisions and writes the files.
        fixed_shapes: Whether all batches must have one shape.
    """

    num_replicas: int = 1
    is_chief: bool = True
    fixed_shapes: bool = False

    @abc.abstractmethod
    def describe(self) -> str:
        """Returns a description of the devices, such as `2 x GPU`."""

    def free_memory(self) -> int | None:
        """Returns the bytes that each device can still take; None if unknown.

        By default the devices are CPUs, which share the memory of the machine.
        """
        free = memory.free_memory()
        return free and free // self.num_replicas

    def peak_memory(self) -> int | None:
        """Returns the most bytes that a device, or this process, has held; None if unknown."""
        return memory.peak_memory()

    def make_optimizer(
        self,
        name: str,
        model: keras.Model,
        *,
        weight_decay: float = 0.01,
        beta_2: float = 0.999,
        layer_decay: float = 1.0,
    ) -> Any:
        """Makes and builds an optimizer; by default one of `keras_attn.training.optimizers`.

        Args:
            name: "adamw" or "lamb".
            model: A built task model, made in `scope`.
            weight_decay: Decoupled weight decay of all but biases and scales of norms.
            beta_2: Decay rate of the second moment.
            layer_decay: Factor of the learning rate from each layer of the backbone to the one
                below; heads have the whole rate.
        """
        return make_optimizer(
            name, model, weight_decay=weight_decay, beta_2=beta_2, layer_decay=layer_decay
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
            model: A built task model, made in `scope`.
            optimizer: What `make_optimizer` returned, made in `scope`.
            accumulate: Number of micro-batches; see `Step`.
            clip_norm: Upper bound of the global norm of the gradients; None or 0: unbounded.
            jit: Whether XLA compiles the step.
            seed: Seed of dropout; masks differ by step, micro-batch and replica.
        """

    @abc.abstractmethod
    def make_evaluator(
        self, model: keras.Model, *, jit: bool = False, rows: str | None = None
    ) -> Evaluator:
        """Makes the evaluator of a model.

        Args:
            model: A built task model, made in `scope`.
            jit: Whether XLA compiles the evaluation.
            rows: Name of an output to gather row by row, such as `"logits"`.
        """

    def scope(self) -> contextlib.AbstractContextManager:
        """Context in which models and optimizers are made."""
        return contextlib.nullcontext()

    def agree(self, values: Sequence[float] | np.ndarray) -> np.ndarray:
        """Returns the chief's values on every worker, as a float64 vector.

        Decisions that depend on a clock or a signal differ between workers; this makes them one.
        """
        return np.asarray(values, np.float64)

    def any(self, flag: Any) -> bool:
        """Whether `flag` is true on any worker."""
        return bool(flag)

    def meet(self) -> None:
        """Waits for all workers; a worker that dies ends the wait with an error."""
        self.agree([0.0])
