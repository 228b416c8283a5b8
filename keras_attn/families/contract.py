"""What a family of models answers."""

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

import keras

from keras_attn.errors import UserError
from keras_attn.families.architecture_choice import choose_architecture
from keras_attn.families.step_memory import LayerMemory, encoder_memory, feed_forward_dim
from keras_attn.registry import FAMILIES, TASKS
from keras_attn.text.recipes import Kind


class Family:
    """A backbone, the models built on it, its tokenizer and the formats of its checkpoints.

    A new family is a package with a module `fields` (see `keras_attn.families.bert.fields`) and a
    module `family` with an instance of a subclass named `FAMILY`, and one line in
    `keras_attn.registry`. docs/adding_a_family.md goes through the steps.

    Attributes:
        name: Name in the registry.
        title: Name in messages: "BERT".
        backbone: Class of the backbone, a `keras.Model` with `hidden_dim` and `variables_by_depth`.
        backbone_name: Name of the backbone in the paths of weights.
        task_models: Dict from names of tasks to classes that take a backbone and the arguments of
            the head; None if the backbone itself is the model. For other tasks that have one,
            `Task.model`.
        encodes: Whether its outputs have `sequence_output`, which the models of tasks take.
        tokenizers: Kind of its tokenizer.
        sizes: Dict from names to numbers of layers, hidden sizes, attention heads and feed-forward
            sizes.
        free_arguments: Arguments of the backbone that may differ from those of a pretrained model,
            because no pretrained weight depends on them.
        finetunes_from_scratch: Whether finetuning may start from random weights.
        packs: Whether finetuning supports `data.pack`, several examples in one row.
        released_pooling: Default of `model.pooling` for classifiers of released models.
        tokenizer_fields: Fields of the config's `data` that `tokenizer_settings` may return, and
            their defaults.
        unpretrained_heads: Heads of classifiers that no pretraining trains, so that they are newly
            initialized without `model.new_heads`.
        position_table: Path of the table of learned positions below the task model, if a larger
            `max_length` than that of the pretrained model may extend it by repetition; None: the
            number of positions is fixed.
    """

    name: str
    title: str
    backbone: type
    backbone_name: str
    task_models: Mapping[str, type | None]
    encodes: bool = True
    tokenizers: Kind
    sizes: Mapping[str, tuple]
    free_arguments: tuple[str, ...] = ("dropout", "initializer_range")
    finetunes_from_scratch: bool = True
    packs: bool = True
    released_pooling: str = "cls"
    tokenizer_fields: Mapping[str, Any] = {}
    unpretrained_heads: tuple[str, ...] = ()
    position_table: str | None = None

    @property
    def has_pooler(self) -> bool:
        """Whether the backbone has a pooler.

        That is an optional dense layer named `pooler`, which `pooled_output` goes through and the
        argument `use_pooler` adds.
        """
        return "use_pooler" in inspect.signature(self.backbone).parameters

    def choose_architecture(self, run: Any, use_pooler: bool = False) -> dict:
        """Returns the arguments of the backbone of a run, but for `vocabulary_size`.

        They are those of the run that is resumed or of the pretrained model; without either, those
        of the config, with `default_arguments` where it is unset.

        Args:
            run: `keras_attn.runs.run.Run`; its config, what it resumes and what it starts from.
            use_pooler: Whether the task reads `pooled_output`; for families with a pooler.

        Raises:
            UserError: If the config describes no model, or not the pretrained one.
        """
        return choose_architecture(run, self, use_pooler)

    def default_arguments(self, run: Any, shape: Mapping) -> dict:
        """Returns arguments of a randomly initialized backbone that the config may leave unset.

        Args:
            run: `keras_attn.runs.run.Run`.
            shape: Arguments that are known: those of the config, and of the size "tiny".
        """
        return {}

    def build(
        self,
        task: str,
        architecture: Mapping,
        heads: Mapping,
        dtype: Any = "float32",
        seed: int | None = None,
    ) -> keras.Model:
        """Makes a model, whose weights do not exist before its `build()`.

        Args:
            task: Name of a task.
            architecture: Arguments of the backbone.
            heads: Further arguments of the task model.
            dtype: Dtype policy.
            seed: Integer for initial weights and dropout.
        """
        backbone = self.backbone(**architecture, dtype=dtype, seed=seed, name=self.backbone_name)
        model = self.model_class(task)
        return model(backbone, **heads, dtype=dtype) if model else backbone

    def model_class(self, task: str) -> type | None:
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

    def prefix(self, task: str) -> str:
        """Returns what the paths of weights begin with in a checkpoint of a task."""
        model = self.model_class(task)
        if not model:
            return "model/"
        return f"model/{inspect.signature(model).parameters['name'].default}/"

    def shapes(self, task: str, architecture: Mapping, heads: Mapping) -> dict | None:
        """Returns the shape of each weight by path below the task model.

        None if they are known only from the built model; then a checkpoint of other shapes is an
        error when it is assigned, not when its header is read.
        """
        return None

    def read_tokenizer(self, folder: str, data: Mapping) -> Any:
        """Returns the tokenizer in a workdir, by the `data` of its config."""
        return self.tokenizers.read(folder, bool(data.get("lowercase")))

    def tokenizer_settings(self, tokenizer: Any) -> dict:
        """Returns what the config's `data` must hold for `read_tokenizer`, besides `lowercase`."""
        return {}

    def least_size(self, architecture: Mapping) -> int:
        """Returns a number of values that the weights of a model exceed.

        It refuses a damaged config.json before memory is taken for its model; here it counts the
        largest tables and matrices of a Transformer.

        Args:
            architecture: Arguments of the backbone, with `vocabulary_size`.
        """
        rows = architecture["vocabulary_size"]
        if architecture.get("positions", "learned") == "learned":
            rows += architecture.get("max_length") or 0
        inner = feed_forward_dim(architecture)
        return architecture["hidden_dim"] * (rows + 2 * inner * architecture["num_layers"])

    def memory(self, architecture: Mapping, length: int, targets: int) -> LayerMemory:
        """Returns what a training step holds of the layers, in values.

        Args:
            architecture: Arguments of the backbone, with `vocabulary_size`.
            length: Tokens of a row.
            targets: Tokens of a row that are predicted.
        """
        return encoder_memory(architecture, length)

    def format(self, name: str) -> Any:
        """Returns the module that reads and writes a checkpoint format of other libraries."""
        return importlib.import_module(f"{FAMILIES.package(self.name)}.{name}")
