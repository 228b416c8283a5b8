"""A trained model from any source."""

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
        path: Path of the folder.
        family: `keras_attn.families.contract.Family`.
        task: Name of the task; "backbone" for a backbone without a head.
        architecture: Arguments of the backbone.
        heads: Other arguments of the task model.
        weights: Dict from our paths below the task model, such as `bert_encoder/token_embedding`,
            to arrays, which may be read when they are used.
        tokenizer: The tokenizer; None if the folder has none.
        lowercase: Whether text is lower-cased; None if unknown.
        files: What the task stores besides weights, such as the names of classes: the result of
            `Task.read_files` for a workdir and of `Task.read_head` for other formats.
        config: Config of the run that trained the model; None for models of other libraries.
        released: Whether the weights are released weights, or were initialized from them.
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
        """Value of `kind` in config.json, for the family and the task."""
        return kind_of(self.family.name, self.task)

    @property
    def sha256(self) -> str:
        """SHA-256 of all weights."""
        return digest(self.weights)

    @property
    def backbone_weights(self) -> dict:
        """The weights of the backbone, without those of the head."""
        prefix = f"{self.family.backbone_name}/"
        return {path: self.weights[path] for path in self.weights if path.startswith(prefix)}

    def with_text(self, lowercase: bool | None, name: str = "lowercase") -> "TrainedModel":
        """Returns the model with `lowercase` and a matching tokenizer.

        Args:
            lowercase: Whether text is lower-cased; None: as in the folder.
            name: Name of this argument in messages.

        Raises:
            UserError: If the folder has no tokenizer or another value of `lowercase`, or if the
                value is unknown and the family has released models with both values.
        """
        if self.tokenizer is None:
            files = " and ".join(self.family.tokenizers.files)
            raise UserError(f"{self.path} lacks the tokenizer: {files}")
        if lowercase not in (None, self.lowercase) and self.lowercase is not None:
            raise UserError(
                f"{name}={lowercase} differs from {self.path}, which has {self.lowercase}. "
                f"Leave {name} unset"
            )
        if lowercase is None and self.lowercase is None and self.family.tokenizers.lowercase:
            raise UserError(
                f"{self.path} does not specify whether text is lower-cased. Set {name}=True or "
                f"{name}=False. For commands without --lowercase, first run: "
                f"python -m keras_attn.convert --from={self.path} --to=FOLDER --lowercase, or "
                "--nolowercase"
            )
        chosen = bool(lowercase if self.lowercase is None else self.lowercase)
        tokenizer = self.tokenizer
        if tokenizer.lowercase != chosen:
            if self.family.tokenizers.keeps_case:
                raise UserError(
                    f"{name} must be {tokenizer.lowercase} for the tokenizer of "
                    f"{self.family.title}. Received: {name}={lowercase}, {self.path}"
                )
            tokenizer = tokenizer.with_lowercase(chosen)
        return dataclasses.replace(self, lowercase=chosen, tokenizer=tokenizer)

    def head_of(self, path: str) -> str:
        """Returns the name of the head, of the pooler, or of the rest of the backbone, to which a
        path of weights belongs.
        """
        is_pooler = path.startswith(f"{self.family.backbone_name}/pooler/")
        return "pooler" if is_pooler else path.split("/")[0]

    @property
    def head_names(self) -> set[str]:
        """Names of the heads that have weights, and of the pooler if it has."""
        return {self.head_of(path) for path in self.weights} - {self.family.backbone_name}

    def match_heads(self, wanted: list, new: bool) -> tuple[list, list]:
        """Compares the heads of a run with the heads of this model.

        Args:
            wanted: Names of the heads of the run.
            new: Whether missing heads may be randomly initialized.

        Returns:
            The missing heads and the unused heads, both sorted.

        Raises:
            UserError: If a head that pretraining trains is missing and `new` is False.
        """
        found = self.head_names
        missing, left = sorted(set(wanted) - found), sorted(found - set(wanted))
        required = sorted(self.family.pretrained_heads.intersection(missing))
        if required and not new:
            raise UserError(
                f"{self.path} has no weights for {', '.join(required)}. Set "
                "model.new_heads=True to initialize them randomly"
            )
        return missing, left

    def assign(self, model: keras.Model, new: list | tuple = ()) -> None:
        """Assigns the weights to a model; weights of heads that it does not have are unused.

        Args:
            model: A task model, or the backbone.
            new: Names of the heads that keep their initial weights.

        Raises:
            UserError: If other weights are missing or misshapen.
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
        positions = self.family.position_embedding_path
        if positions in values:
            values[positions] = _repeated(values[positions], wanted[positions].shape[0])
        check_values(wanted, values, f"The checkpoint of {self.path}")
        # Each weight is read here. More threads would store more weights at the same time.
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
        check_size(self.family.min_parameters(self.architecture), self.weights, self.path)
        model = self.family.build(self.task, self.architecture, self.heads, dtype)
        with override_initializers(_unset):
            model.build()
        self.assign(model)
        return model


def _unset(shape, dtype=None):
    """Returns uninitialized memory, as all values are assigned later."""
    return as_tensor(new_array(shape), dtype)


def _repeated(table, rows):
    """Extends position embeddings by repetition (Beltagy et al., Longformer, 2020, section 5)."""
    if table.shape[0] >= rows:
        return table
    return np.resize(np.asarray(table), (rows, table.shape[1]))
