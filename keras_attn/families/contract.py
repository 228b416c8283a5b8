"""The interface of a family of models."""

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

import keras

from keras_attn.errors import UserError
from keras_attn.families.architecture_choice import choose_architecture
from keras_attn.families.layer_memory import (
    LayerMemory,
    embedding_dim,
    encoder_memory,
    feed_forward_dim,
    learned_positions,
)
from keras_attn.registry import FAMILIES, TASKS
from keras_attn.text.tokenizer_types import TokenizerType


class Family:
    """A backbone, the models built on it, its tokenizer and the formats of its checkpoints.

    A new family is a package with a module `fields` (see `keras_attn.families.bert.fields`) and a
    module `family` with an instance of a subclass named `FAMILY`, and one line in
    `keras_attn.registry`. docs/adding_a_family.md goes through the steps.

    Attributes:
        name: Name in the registry and in `FIELDS`; the registry checks it.
        title: Name in messages, such as "BERT".
        backbone: Class of the backbone, a `keras.Model` with `hidden_dim` and `variables_by_depth`.
            Its constructor annotates integers with `int` and other numbers with `float`, by which
            the architecture in a config.json is checked.
        backbone_name: Name of the backbone in the paths of weights.
        task_models: Dict from names of tasks to classes that take a backbone and the arguments of
            the head; None if the backbone itself is the model. Other tasks use `Task.model`.
        encodes: Whether the backbone returns `sequence_output`, the input of `Task.model`.
        tokenizers: Tokenizer type.
        sizes: Dict from the values of `model.size` to arguments of the backbone. The first one is
            the default.
        free_arguments: Arguments of the backbone that may differ from the pretrained model, because
            no weight depends on them.
        finetunes_from_scratch: Whether finetuning may start from random weights.
        requires_pairs: Whether it encodes pairs of texts only, for classification.
        packs: Whether finetuning supports `data.pack`, several examples in one row.
        scratch_learning_rate: Default of `train.learning_rate` for finetuning from random weights;
            None: chosen from the size of the model.
        scratch_epochs: Default of `train.epochs` for the same; a run with few examples trains for
            more epochs.
        pooling: Default of `model.pooling` for finetuning a classifier from other weights.
        released_pooling: Default of `model.pooling` for finetuning a classifier from released
            weights.
        tokenizer_fields: Dict from the fields of `config.data` that `tokenizer_settings` may return
            to their defaults.
        position_embedding_path: Path of the position embeddings below the task model, if repetition
            may extend them to a larger `max_length` than in the pretrained model; None: the number
            of positions is fixed.
    """

    name: str
    title: str
    backbone: type
    backbone_name: str
    task_models: Mapping[str, type | None]
    encodes: bool = True
    tokenizers: TokenizerType
    sizes: Mapping[str, Mapping[str, Any]]
    free_arguments: tuple[str, ...] = ("dropout", "initializer_range")
    finetunes_from_scratch: bool = True
    requires_pairs: bool = False
    packs: bool = True
    scratch_learning_rate: float | None = None
    scratch_epochs: float = 3.0
    pooling: str = "mean"  # better after short pretraining
    released_pooling: str = "cls"
    tokenizer_fields: Mapping[str, Any] = {}
    position_embedding_path: str | None = None

    @property
    def has_pooler(self) -> bool:
        """Whether the backbone has the argument `use_pooler`.

        It adds a dense layer named `pooler`, which computes `pooled_output`.
        """
        return "use_pooler" in inspect.signature(self.backbone).parameters

    def choose_architecture(self, run: Any, use_pooler: bool = False) -> dict:
        """Returns the arguments of the backbone of a run except those of `tokenizer_arguments`.

        They come from the run that is resumed or from the pretrained model, else from the config
        and, for unset fields, from `default_arguments`.

        Args:
            run: `keras_attn.runs.run.Run`.
            use_pooler: Whether the task uses `pooled_output`; for families with a pooler.

        Raises:
            UserError: If the config is invalid or differs from the pretrained model.
        """
        return choose_architecture(run, self, use_pooler)

    def default_arguments(self, run: Any, shape: Mapping) -> dict:
        """Returns the defaults of a randomly initialized backbone for unset fields of the config.

        Args:
            run: `keras_attn.runs.run.Run`.
            shape: Arguments that the config sets, and the default size.
        """
        return {}

    def tokenizer_arguments(self, tokenizer: Any) -> dict:
        """Returns the arguments of the backbone that depend on the tokenizer of a run.

        Args:
            tokenizer: The tokenizer.
        """
        return {"vocabulary_size": tokenizer.vocabulary_size}

    def build(
        self,
        task: str,
        architecture: Mapping,
        heads: Mapping,
        dtype: Any = "float32",
        seed: int | None = None,
    ) -> keras.Model:
        """Creates a model without weights; its `build()` creates them.

        Args:
            task: Name of the task.
            architecture: Arguments of the backbone.
            heads: Other arguments of the task model.
            dtype: Dtype policy.
            seed: Integer seed of the initial weights and of dropout.
        """
        backbone = self.backbone(**architecture, dtype=dtype, seed=seed, name=self.backbone_name)
        model = self.model_class(task)
        return model(backbone, **heads, dtype=dtype) if model else backbone

    def model_class(self, task: str) -> Any:
        """Returns the class of the task model; None if the backbone itself is the model.

        Raises:
            UserError: If the family has no model for the task.
        """
        if not self.supports(task):
            raise UserError(
                f"The family {self.name} has no model for {task}. "
                f"Received: model.family={self.name}"
            )
        return self.task_models[task] if task in self.task_models else TASKS[task].model

    def supports(self, task: str) -> bool:
        """Returns whether the family has a model for a task."""
        return task in self.task_models or self.encodes and TASKS[task].model is not None

    def head_names(self, task: str, heads: Mapping) -> list[str]:
        """Returns the names of the layers and weights of the head, and of the pooler if it is used.

        Args:
            task: Name of the task.
            heads: Arguments of the head.
        """
        model = self.model_class(task)
        if not model:
            return []
        pooler = ["pooler"] if self.has_pooler and model.uses_pooler(**heads) else []
        return [*model.head_names(**heads), *pooler]

    @property
    def pretrained_heads(self) -> set[str]:
        """Names of the heads, and of the pooler, that a pretraining task of the family trains."""
        return {name for task in self.pretraining_tasks for name in self.head_names(task, {})}

    @property
    def pretraining_tasks(self) -> list[str]:
        """Names of the pretraining tasks for which the family has a model."""
        return [task for task in TASKS if TASKS.fields(task).pretrains and self.supports(task)]

    def prefix(self, task: str) -> str:
        """Returns the prefix of the paths of weights in a checkpoint of a task.

        Raises:
            ValueError: If the task model has no default name.
        """
        model = self.model_class(task)
        if not model:
            return "model/"
        name = inspect.signature(model).parameters.get("name")
        if name is None or not isinstance(name.default, str):
            raise ValueError(
                f"{model.__name__}: a task model must have an argument `name` with a default, the "
                f"prefix of its weights. Received: {name}"
            )
        return f"model/{name.default}/"

    def shapes(self, task: str, architecture: Mapping, heads: Mapping) -> dict | None:
        """Returns the shape of each weight by its path below the task model.

        None if only the built model has them. A checkpoint of other shapes is then an error when
        the weights are assigned, instead of when the header is read.
        """
        return None

    def read_tokenizer(self, folder: str, data: Mapping) -> Any:
        """Reads the tokenizer of a workdir; `data` is the section of its config."""
        return self.tokenizers.read(folder, bool(data.get("lowercase")))

    def tokenizer_settings(self, tokenizer: Any) -> dict:
        """Returns the fields of `config.data`, besides `lowercase`, that `read_tokenizer` reads."""
        return {}

    def min_parameters(self, architecture: Mapping) -> int:
        """Returns a lower bound of the number of values of a model.

        It detects a damaged config.json before memory is allocated. The default counts the
        embeddings and, of models with `num_heads`, the feed-forward layers.

        Args:
            architecture: Arguments of the backbone, with `vocabulary_size`.
        """
        rows = architecture["vocabulary_size"] + learned_positions(architecture)
        embeddings = rows * embedding_dim(architecture)
        if "num_heads" not in architecture:  # not a Transformer
            return embeddings
        feed_forward = 2 * architecture["hidden_dim"] * feed_forward_dim(architecture)
        return embeddings + architecture["num_layers"] * feed_forward

    def output_dim(self, architecture: Mapping) -> int:
        """Returns the size of the vectors from which heads and logits are computed."""
        return architecture["hidden_dim"]

    def memory(
        self, task: str, architecture: Mapping, heads: Mapping, length: int, targets: int
    ) -> LayerMemory:
        """Estimates the memory of the layers in a training step, in values.

        The layers of `Task.head_layers` and the logits over the vocabulary are added to it. A task
        model with more layers, such as the generator of ELECTRA, is counted here.

        Args:
            task: Name of the task.
            architecture: Arguments of the backbone, with `vocabulary_size`.
            heads: Arguments of the head; {} if they are not known yet.
            length: Sequence length.
            targets: Number of predicted tokens per sequence.
        """
        return encoder_memory(architecture, length)

    def format(self, name: str) -> Any:
        """Returns the module that reads and writes a checkpoint format of another library."""
        return importlib.import_module(f"{FAMILIES.package(self.name)}.{name}")
