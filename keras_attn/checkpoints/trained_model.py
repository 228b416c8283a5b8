"""A trained model, wherever it comes from."""

import dataclasses
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn.checkpoints.architectures import check_size
from keras_attn.errors import UserError
from keras_attn.layers.seeds import override_initializers
from keras_attn.ops.shared_memory import as_tensor, new_array
from keras_attn.registry import kind_of
from keras_attn.training.variables import check_values, digest, variables_by_path


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """Architecture, tokenizer and weights of a model in a workdir or another library's folder.

    Attributes:
        path: The folder.
        family: `keras_attn.families.contract.Family`.
        task: Name of the task; "backbone" of a backbone without a head.
        architecture: Arguments of the backbone.
        heads: Further arguments of the task model.
        weights: Our paths below the task model, such as `bert_encoder/token_embedding`, and arrays,
            which may be read only when they are used.
        tokenizer: Its tokenizer; None if the folder has none.
        lowercase: Whether text is lower-cased; None if the folder does not say.
        files: What the task stores besides weights, such as the names of classes: what
            `Task.read_files` returns for a workdir and `Task.read_head` for other formats.
        config: Of the run, or None if no run of ours made the model.
        released: Whether the weights are, or began as, those of a released model.
    """

    path: str
    family: Any
    task: str
    architecture: dict
    heads: dict
    weights: Mapping
    tokenizer: Any = None
    lowercase: bool | None = None
    files: Mapping = dataclasses.field(default_factory=dict)
    config: dict | None = None
    released: bool = True

    @property
    def kind(self) -> str:
        """What config.json calls the pair of family and task."""
        return kind_of(self.family.name, self.task)

    @property
    def sha256(self) -> str:
        """SHA-256 of all weights."""
        return digest(self.weights)

    def with_text(self, lowercase: bool | None, name: str = "lowercase") -> "TrainedModel":
        """Returns the model with a tokenizer that lower-cases text, or does not.

        Args:
            lowercase: What the user says; None for nothing.
            name: What messages call that argument.

        Raises:
            UserError: If the folder has no tokenizer, or contradicts the user, or neither says
                whether text is lower-cased and there are released models of both kinds.
        """
        if self.tokenizer is None:
            files = " and ".join(self.family.tokenizers.files)
            raise UserError(f"A folder with {files} is needed. Received: {self.path}")
        if lowercase not in (None, self.lowercase) and self.lowercase is not None:
            raise UserError(
                f"{name} must be that of the model, or be left out. "
                f"Received: {name}={lowercase}, {self.path} has {self.lowercase}"
            )
        if lowercase is None and self.lowercase is None and self.family.tokenizers.lowercase:
            raise UserError(
                f"{self.path} does not say whether text is lower-cased. Set "
                f"{name}=True or {name}=False; for commands without --lowercase, "
                "convert it first: python -m keras_attn.convert --lowercase"
            )
        chosen = bool(lowercase if self.lowercase is None else self.lowercase)
        tokenizer = self.tokenizer
        if tokenizer.lowercase != chosen:
            if tokenizer.verbatim:
                raise UserError(
                    f"{name} must be {tokenizer.lowercase} with a tokenizer of "
                    f"{self.family.title}. Received: {name}={lowercase}, "
                    f"{self.path}"
                )
            tokenizer = tokenizer.with_lowercase(chosen)
        return dataclasses.replace(self, lowercase=chosen, tokenizer=tokenizer)

    def head_of(self, path: str) -> str:
        """Returns the name of the head that a path of weights belongs to, or of the pooler."""
        return path.removeprefix(f"{self.family.backbone_name}/").split("/")[0]

    @property
    def head_names(self) -> set[str]:
        """Names of the heads that have weights, and of the pooler."""
        backbone = f"{self.family.backbone_name}/"
        return {
            self.head_of(path)
            for path in self.weights
            if not path.startswith(backbone) or path.startswith(f"{backbone}pooler/")
        }

    def match_heads(self, wanted: list, new: bool) -> tuple[list, list]:
        """Compares the heads of a run with those that are here, before any work.

        Args:
            wanted: Names of the heads that the run needs.
            new: Whether it may initialize those that are not here.

        Returns:
            (wanted ones that are not here, ones here that are not wanted), both sorted.

        Raises:
            UserError: If some are missing, `new` is False and pretraining would have trained them.
        """
        here = self.head_names
        missing, left = sorted(set(wanted) - here), sorted(here - set(wanted))
        if set(missing).difference(self.family.unpretrained_heads) and not new:
            raise UserError(
                f"{self.path} has no weights for {', '.join(missing)}. Set "
                "model.new_heads=True to initialize them randomly"
            )
        return missing, left

    def assign(self, model: keras.Model, new: list | tuple = ()) -> None:
        """Sets the weights of a model; those of heads that it does not have are left.

        Args:
            model: A task model, or the backbone.
            new: Names of the heads that keep the weights they have.

        Raises:
            UserError: If others are missing or do not fit.
        """
        prefix = "model/" if isinstance(model, self.family.backbone) else f"model/{model.name}/"
        paths = {
            path.removeprefix(prefix): variable
            for path, variable in variables_by_path(model).items()
        }
        wanted = {
            path: variable for path, variable in paths.items() if self.head_of(path) not in new
        }
        values = {path: self.weights[path] for path in wanted if path in self.weights}
        positions = self.family.position_table
        if positions in values:
            values[positions] = _repeated(values[positions], wanted[positions].shape[0])
        check_values(wanted, values, f"The checkpoint of {self.path}")
        # They are read, and turned, now. More threads would hold more at once.
        with ThreadPoolExecutor(2) as pool:
            for path, tensor in zip(
                values, pool.map(ops.convert_to_tensor, values.values()), strict=True
            ):
                wanted[path].assign(tensor)

    def make_model(self, dtype: str = "float32") -> keras.Model:
        """Returns the trained model.

        Args:
            dtype: Dtype policy.
        """
        check_size(self.family.least_size(self.architecture), self.weights, self.path)
        model = self.family.build(self.task, self.architecture, self.heads, dtype)
        with override_initializers(_unset):
            model.build()
        self.assign(model)
        return model


def _unset(shape, dtype=None):
    """Whatever is in memory: setting it first would take as long as setting it once more."""
    return as_tensor(new_array(shape), dtype)


def _repeated(table, rows):
    """A position table with more rows: its own again and again (Beltagy et al., Longformer, 2020,
    section 5)."""
    if table.shape[0] >= rows:
        return table
    return np.resize(np.asarray(table), (rows, table.shape[1]))
