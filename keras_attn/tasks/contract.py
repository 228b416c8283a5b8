"""What a task answers: examples, heads, metrics, predictions, export."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from keras_attn.errors import UserError


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a run trains and evaluates.

    Attributes:
        architecture: Arguments of the backbone.
        heads: Further arguments of the task model.
        hashes: Dict from the names of data files to their SHA-256.
        train: Training batches.
        validation: Validation batches; None if there is no validation set.
        new_heads: Names of heads that keep their initial weights where the others are pretrained.
        initialize: Function of the model, called when pretrained weights are assigned and before
            the first step; None: nothing else is initialized.
        outputs: Name of an output of the model that `metrics` needs row by row.
        metrics: Function of the model, the mean losses and metrics, the rows of `outputs` and
            `stop`, a function that is true once the run has to end. Returns a dict of numbers, or
            None once `stop()` was true. None: the losses and metrics of the model.
        best: `keras_attn.training.best.Best`, to end with the weights of the best evaluation; None:
            with the last ones.
        notes: Function that returns further entries of results.json at the end; None: there are
            none.
        finish: Function of the results, called at the end of a run that trained: reports and
            baselines; None: nothing is left to do.
    """

    architecture: dict
    heads: dict
    hashes: dict
    train: Any
    validation: Any = None
    new_heads: list | tuple = ()
    initialize: Callable | None = None
    outputs: str | None = None
    metrics: Callable | None = None
    best: Any = None
    notes: Callable | None = None
    finish: Callable | None = None


class Task:
    """What a model is trained for, or used for.

    A new task is a package with a module `fields`, which has an instance of
    `keras_attn.declarations.TaskFields` named `FIELDS`, and a module `task` with an instance of a
    subclass named `TASK`, and one line in `keras_attn.registry`. docs/adding_a_task.md goes through
    the steps.

    Attributes:
        name: Name in the registry.
        model: Class that takes any backbone with a `sequence_output` and the arguments of the head;
            None: only the families whose `task_models` have one can be trained for it.
        pretrains: Whether its runs pretrain: on text without labels.
        starts_from: Names of the tasks whose models its runs may start from; None: of all.
        default_end: Field of `config.train` and its value that end a run whose config has none; {}:
            `plan` chooses one.
        decodes: Whether evaluation decodes a token at a time: then it needs no memory for a batch
            of logits, and its batches need not divide over devices.
        command: The command that uses its models, for messages.
    """

    name: str
    model: type | None = None
    pretrains: bool = False
    starts_from: tuple[str, ...] | None = None
    default_end: Mapping[str, float] = {}
    decodes: bool = False
    command: str = "keras_attn.load"

    # Training.

    def plan(self, run: Any) -> Plan:
        """Checks the config, reads the data and returns what to train.

        Args:
            run: `keras_attn.runs.run.Run`, whose workdir is locked.

        Raises:
            UserError: If the user can fix it: a field, a file, a missing column.
        """
        raise UserError(
            f"Models for {self.name} are not trained, only loaded. Received: kind={run.kind}"
        )

    def targets(self, data: Mapping) -> int:
        """Returns how many tokens of a row are predicted over the vocabulary.

        Args:
            data: `config.data`.
        """
        return 0

    # Workdirs.

    def complete_heads(self, heads: Mapping, config: Mapping, files: Mapping) -> dict:
        """Returns the arguments of the head of a workdir, with those that its version lacked.

        Args:
            heads: Those in its config.json.
            config: Of the run.
            files: What `read_files` returned.

        Raises:
            ValueError: If there are others than the head has.
        """
        if heads:
            raise ValueError(heads)
        return {}

    def read_files(self, workdir: Any, heads: Mapping) -> dict:
        """Returns the content of the task's files in a workdir: `TrainedModel.files`.

        Args:
            workdir: `keras_attn.workdir.Workdir`.
            heads: Arguments of the head in config.json.
        """
        return {}

    def write_files(self, workdir: Any, trained: Any) -> None:
        """Writes what `read_files` reads.

        Args:
            workdir: `keras_attn.workdir.Workdir`.
            trained: `TrainedModel`.
        """

    def complete_config(self, config: dict, trained: Any) -> None:
        """Sets the fields that describe a model of another library in a default config.

        Args:
            config: Nested dict.
            trained: `TrainedModel`.
        """

    # Use.

    def load(self, trained: Any, precision: str) -> Any:
        """Returns the model ready for use.

        Its attributes `task` and `path` are the name of this task and the folder, `cut` is a
        `Counter` of the texts that were cut, by length.

        Args:
            trained: `TrainedModel` with tokenizer and config.
            precision: Dtype policy.

        Raises:
            UserError: If such models, or models in this precision, have no use.
        """
        raise NotImplementedError

    def predict_texts(
        self,
        model: Any,
        texts: list,
        text_pairs: list | None,
        file: Any,
        output: str,
        options: Mapping,
    ) -> None:
        """Writes a prediction for each text.

        Args:
            model: What `load` returned.
            texts: List of strings.
            text_pairs: List of strings; None if there are no pairs.
            file: The open output file.
            output: Its name.
            options: Values by name of those that `TaskFields.options` has for "predict".
        """
        raise self._unsuited("finetune.predict", model)

    def predict_file(
        self,
        model: Any,
        source: str,
        file: Any,
        output: str,
        batch_size: int,
        reading: Mapping,
        options: Mapping,
    ) -> None:
        """Writes a prediction for each row of a file.

        Args:
            model: What `load` returned.
            source: A file, a glob or `-`.
            file: The open output file.
            output: Its name.
            batch_size: Number of rows in a batch.
            reading: How to read the file: `format`, `text`, `text_pair`, `on_bad_text`, `encoding`,
                `max_line`; None: as in training.
            options: See `predict_texts`.
        """
        raise self._unsuited("finetune.predict", model)

    def evaluate(
        self, model: Any, data: str, batch_size: int, reading: Mapping, options: Mapping
    ) -> dict:
        """Returns metrics on labeled data.

        Args:
            model: What `load` returned.
            data: Value of the option that `TaskFields.data` names.
            batch_size: See `predict_file`.
            reading: See `predict_file`.
            options: Values by name of those that `TaskFields.options` has for "evaluate".
        """
        raise self._unsuited("finetune.evaluate", model)

    def exported(self, model: Any, options: Mapping) -> Any:
        """Returns a `tf.Module` with a function `serve`, strings in, and `labels` or None.

        Args:
            model: What `load` returned.
            options: Values by name of those that `TaskFields.options` has for "export".
        """
        raise self._unsuited("finetune.export", model)

    # Results.

    def combine(self, results: list[Mapping]) -> dict:
        """Returns what the results of several seeds on the same rows have in common.

        The means of the metrics are there already.

        Args:
            results: As in results.json, or as `evaluate` returned them.
        """
        return {}

    def describe(self, results: Mapping) -> Iterable[str]:
        """Yields the lines that `finetune.evaluate` prints below the metrics.

        Args:
            results: What `evaluate` or, of several seeds, `combine` returned.
        """
        return ()

    def sections(self, results: Mapping, best: str) -> list:
        """Returns the sections of the report of several runs, parts of `keras_attn.reports.page`.

        Args:
            results: As in the results.json of the folder.
            best: Address of the report of the best run.
        """
        return []

    def _unsuited(self, command, model):
        return UserError(
            f"`python -m {command}` does not support models for {self.name}. Use "
            f"`{self.command}`. Received: {model.path}"
        )

    # Checkpoints of other libraries. A family's format of `transformers` has a class for a task
    # with HUGGINGFACE_CLASS in its module `fields`; these methods describe its head.

    def head_layers(self, heads: Mapping) -> dict[str, tuple[str, int]] | None:
        """Returns the dense layers of the head by name: their names elsewhere and their sizes.

        `{"logits_dense": ("classifier", 3)}` is `classifier.weight` and `classifier.bias` in
        `transformers`. None if the head is not made of dense layers on the hidden states; then a
        family's format describes it, or none has it.

        Args:
            heads: Arguments of the head.
        """
        return None

    def read_head(
        self, config: Mapping, path: str, dropout: str | None = None
    ) -> tuple[dict, dict]:
        """Returns the arguments of the head and `TrainedModel.files`, such as the labels.

        Args:
            config: Content of a config.json with its defaults.
            path: Of the file, for messages.
            dropout: Field with the dropout rate of the head; None: the head has no dropout.

        Raises:
            UserError: If a field is invalid.
        """
        return {}, {}

    def write_head(self, trained: Any, dropout: str | None = None) -> dict:
        """Returns the fields of config.json that `read_head` reads.

        Args:
            trained: `TrainedModel`.
            dropout: See `read_head`.
        """
        return {}

    def for_other_libraries(self, trained: Any) -> Any:
        """Returns a `TrainedModel` whose head computes what that of other libraries does."""
        return trained
