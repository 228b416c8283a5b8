"""Finetuning defaults that depend on the model and the data.

The measurements behind the rules are in docs/finetuning_defaults.md. The chosen values are written
to `config.json`, and a resumed run uses them.
"""

from typing import Any

import numpy as np

from keras_attn.defaults import ENDS
from keras_attn.tasks.embedder import MAX_LENGTH
from keras_attn.workdir import began_as_released

# Origin of the initial weights.
RANDOM, PRETRAINED, RELEASED = "random weights", "pretrained with keras-attn", "a released model"

# The peak learning rate is inversely proportional to the hidden size, up to a bound. Released
# models, which were pretrained for long, require a lower one.
RATE_TIMES_HIDDEN_DIM = 0.256
RATE_TIMES_HIDDEN_DIM_RELEASED = 0.04
MAX_RATE = 1e-3

EPOCHS = 3.0
MAX_EPOCHS = 50.0
MIN_EXAMPLES_SEEN = 10_000

LENGTH_MULTIPLE = 8
# If a larger fraction of the texts exceeds the model's positions, they are read in windows.
MAX_CUT_FRACTION = 0.05


class FinetuningDefaults:
    """Chooses the unset fields of a finetuning run.

    Args:
        run: `Run`, whose config and resolved config are set.
    """

    def __init__(self, run):
        self._run = run
        self._reasons = []

    def choose(self, path, value, reason):
        """Sets a field that is unset.

        Args:
            path: Dotted name.
            value: Its value.
            reason: Reason for the line that `report` prints.
        """
        self._run.set_field(path, value)
        shown = f"{value:.2g}" if isinstance(value, float) else value
        self._reasons.append(f"{path}={shown} ({reason})")

    def choose_length(self, row_lengths, positions, paired):
        """Sets `data.length`, and `data.windows` if the task has this field and many texts exceed
        the model's positions.

        Args:
            row_lengths: Number of tokens of each training row, with special tokens, `(N,)`.
            positions: Number of positions of the model; None if it is unlimited.
            paired: Whether rows are pairs of texts.
        """
        config = self._run.config
        data = config.data
        if data.length and not config.pretrained and config.model.get("max_length", 0) is None:
            positions = None  # those of the model follow data.length
        positions = positions or MAX_LENGTH
        longest = int(np.max(row_lengths))
        needed = min(positions, -(-longest // LENGTH_MULTIPLE) * LENGTH_MULTIPLE)
        chosen = data.length is None
        if chosen:
            self.choose("data.length", needed, f"longest text: {longest:,} tokens")
        cut = float(np.mean(row_lengths > data.length))
        if data.get("windows") is not None or cut <= MAX_CUT_FRACTION:
            return
        if chosen and not paired and "windows" in data:
            self.choose(
                "data.windows",
                data.length // 4,
                f"{100 * cut:.0f} % of the texts exceed the model's positions",
            )
            return
        if data.length < needed:
            advice = f"Set data.length={needed}."
        elif "windows" in data and not paired:
            advice = f"Set data.windows={data.length // 4} to read them in windows."
        else:
            advice = "The model has no more positions."
        self._run.say(
            f"warning: {100 * cut:.0f} % of the training rows exceed data.length={data.length} "
            f"tokens and are truncated. {advice}"
        )

    def choose_training(self, num_examples, hidden_dim):
        """Sets `train.learning_rate`, and `train.epochs` unless the length of the run is set.

        Args:
            num_examples: Number of training examples.
            hidden_dim: Hidden size of the model.

        Returns:
            Advice for a run whose metric is not better than a baseline.
        """
        train, family, origin = self._run.config.train, self._run.family, self._origin()
        scratch = origin == RANDOM
        rate = scratch and family.scratch_learning_rate or learning_rate(hidden_dim, origin)
        if train.learning_rate is None:
            self.choose("train.learning_rate", rate, f"hidden size {hidden_dim:,}, {origin}")
        if all(train[name] is None for name in ENDS):
            least = family.scratch_epochs if scratch else EPOCHS
            chosen = epochs(num_examples, least)
            self.choose("train.epochs", chosen, f"{num_examples:,} examples")
        return self._advice(rate, origin)

    def _origin(self):
        """Returns the origin of the initial weights of the run."""
        run = self._run
        if run.resumed:
            pretrained = "pretrained" in run.saved["data_sha256"]
            released = began_as_released(run.saved)
        else:
            pretrained = bool(run.pretrained)
            released = pretrained and run.pretrained.released
        return (RELEASED if released else PRETRAINED) if pretrained else RANDOM

    def report(self):
        """Prints the chosen values and their reasons in one line."""
        if self._reasons:
            self._run.say(f"chosen: {' · '.join(self._reasons)}")

    def _advice(self, rate, origin):
        train = self._run.config.train
        # One of several runs may have its learning rate from search.learning_rates.
        if train.learning_rate != rate and not self._run.compared:
            return (
                f"Leave train.learning_rate={train.learning_rate:g} unset: the default for this "
                f"model is {rate:g}."
            )
        if origin == RANDOM and self._run.family.pretraining_tasks:
            return "Start from a pretrained model: --pretrained."
        rates = ",".join(f"{_two_digits(factor * rate):g}" for factor in (0.3, 1, 3))
        return (
            f"Compare learning rates (--config.search.learning_rates={rates}), train for more "
            f"epochs, or {better_start(self._run.family)}."
        )


def learning_rate(hidden_dim, origin):
    """Default peak learning rate.

    Args:
        hidden_dim: Hidden size of the model.
        origin: Origin of its initial weights: `RANDOM`, `PRETRAINED` or `RELEASED`.
    """
    scale = RATE_TIMES_HIDDEN_DIM_RELEASED if origin == RELEASED else RATE_TIMES_HIDDEN_DIM
    return _two_digits(min(MAX_RATE, scale / hidden_dim))


def epochs(num_examples, least=EPOCHS):
    """Default number of epochs: `least`, and more for few examples."""
    return float(np.clip(_two_digits(MIN_EXAMPLES_SEEN / num_examples), least, MAX_EPOCHS))


def _two_digits(value):
    return float(f"{value:.2g}")


def better_start(family: Any) -> str:
    """Returns advice for a model of a family that learned too little.

    Args:
        family: `keras_attn.families.contract.Family`.
    """
    if family.pretraining_tasks:
        return "start from a model that was pretrained longer"
    return "choose a family that can be pretrained: --config.model.family"
