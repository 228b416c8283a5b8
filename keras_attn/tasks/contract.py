"""Contract of a task: examples, head, metrics, predictions, export."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from keras_attn.errors import UserError
from keras_attn.registry import TASKS


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a run trains and evaluates.

    Attributes:
        architecture: Arguments of the backbone.
        heads: Further arguments of the task model.
        hashes: Dict from the names of data files to their SHA-256.
        train: Training batches.
        validation: Validation batches; None if there is no validation split.
        new_heads: Names of the heads that are newly initialized when the run starts from a
            pretrained model.
        initialize: Function of the model that is called before the first step, after pretrained
            weights are assigned; None: no further initialization.
        outputs: Name of an output of the model that `metrics` receives for all rows.
        metrics: Function of the model, the mean losses and metrics, the rows of `outputs` and
            `stop`, a function that returns whether the run must end. Returns a dict of numbers, or
            None if `stop()` was true. None: the losses and metrics of the model.
        best: `keras_attn.training.best.Best`, to keep the weights of the best evaluation; None: the
            last weights.
        notes: Function that returns further entries of results.json; None: no entries.
        finish: Function of the results that writes reports and baselines at the end of a run; None:
            no reports.
        rates: Peak learning rates of layers of the task model, by name, in place of
            `train.learning_rate`. These layers have no weight decay.
        teacher: `TrainedModel` for the same task that the model receives with `set_teacher`; None:
            no teacher, or one whose predictions are entries of the batches.
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
    rates: Mapping[str, float] = dataclasses.field(default_factory=dict)
    teacher: Any = None


class Task:
    """Base class of tasks.

    A new task is a package with a module `fields`, which defines an instance of
    `keras_attn.declarations.TaskFields` named `FIELDS`, and a module `task`, which defines an
    instance of a subclass named `TASK`, and one line in `keras_attn.registry`. The steps are in
    docs/adding_a_task.md.

    Attributes:
        name: Name in the registry.
        model: Class that takes any backbone with a `sequence_output` and the arguments of the head;
            None: only families with the task in `task_models` support it.
        starts_from: Names of the tasks whose models its runs may start from; None: all tasks.
        default_end: Field of `config.train` and its value that set the length of a run if the
            config does not; {}: `plan` chooses it.
        decodes: Whether evaluation decodes token by token. Then it requires no memory for a batch
            of logits, and its batches need not be divisible by the number of devices.
        generates: Whether `load` returns a `keras_attn.tasks.generator.Generator`, for
            `pretrain.generate`.
        command: Command that uses its models, for messages.
    """

    name: str
    model: type | None = None
    starts_from: tuple[str, ...] | None = None
    default_end: Mapping[str, float] = {}
    decodes: bool = False
    generates: bool = False
    command: str = "keras_attn.load"

    # Training.

    @property
    def pretrains(self) -> bool:
        """Whether its runs pretrain on text without labels."""
        return TASKS.fields(self.name).pretrains

    def plan(self, run: Any) -> Plan:
        """Checks the config, reads the data and returns the `Plan` of a run.

        Args:
            run: `keras_attn.runs.run.Run` with a locked workdir.

        Raises:
            UserError: If a field or the data are invalid.
        """
        raise UserError(f"Training for {self.name} is not supported. Received: kind={run.kind}")

    def targets(self, data: Mapping) -> int:
        """Returns the number of tokens of a row that are predicted over the vocabulary.

        Args:
            data: `config.data`.
        """
        return 0

    def sequences(self, data: Mapping) -> int:
        """Returns the number of sequences of an example, which the memory estimate counts.

        Args:
            data: `config.data`.
        """
        return 1

    # Workdirs.

    def complete_heads(self, heads: Mapping, config: Mapping, files: Mapping) -> dict:
        """Returns the arguments of the head of a workdir, with defaults for missing ones.

        Args:
            heads: Arguments of the head in config.json.
            config: Config of the run.
            files: Result of `read_files`.

        Raises:
            ValueError: If an argument is unknown.
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
        """Writes the files of `read_files`.

        Args:
            workdir: `keras_attn.workdir.Workdir`.
            trained: `TrainedModel`.
        """

    def complete_config(self, config: dict, trained: Any) -> None:
        """Sets the fields of a default config that describe a model of another library.

        Args:
            config: Nested dict.
            trained: `TrainedModel`.
        """

    # Use.

    def load(self, trained: Any, precision: str) -> Any:
        """Returns an object for inference.

        It has the attributes `task`, the name of this task; `path`, the folder; and `cut`, a
        `Counter` of truncated texts by length.

        Args:
            trained: `TrainedModel` with tokenizer and config.
            precision: Dtype policy.

        Raises:
            UserError: If inference, or inference with this precision, is not supported.
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
            model: Result of `load`.
            texts: List of strings.
            text_pairs: List of strings; None if there are no pairs.
            file: The open output file.
            output: Its name.
            options: Values of the `TaskFields.options` of "predict" by name.
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
            model: Result of `load`.
            source: A file, a glob or `-`.
            file: The open output file.
            output: Its name.
            batch_size: Batch size.
            reading: Options for reading the file: `format`, `text`, `text_pair`, `on_bad_text`,
                `encoding` and `max_line`; a value None: as in training.
            options: See `predict_texts`.
        """
        raise self._unsuited("finetune.predict", model)

    def evaluate(
        self, model: Any, data: str, batch_size: int, reading: Mapping, options: Mapping
    ) -> dict:
        """Returns metrics on labeled data.

        Args:
            model: Result of `load`.
            data: Value of the option `TaskFields.data`.
            batch_size: See `predict_file`.
            reading: See `predict_file`.
            options: Values of the `TaskFields.options` of "evaluate" by name.
        """
        raise self._unsuited("finetune.evaluate", model)

    def exported(self, model: Any, options: Mapping) -> Any:
        """Returns a `tf.Module` for a SavedModel.

        It has `serve`, a `tf.function` of strings, and `labels`, names of classes or None.

        Args:
            model: Result of `load`.
            options: Values of the `TaskFields.options` of "export" by name.
        """
        raise self._unsuited("finetune.export", model)

    # Results.

    def combine(self, results: list[Mapping]) -> dict:
        """Returns entries of the combined results of several seeds, in addition to the metrics.

        Args:
            results: Results of the seeds on the same data, from results.json or `evaluate`.
        """
        return {}

    def describe(self, results: Mapping) -> Iterable[str]:
        """Yields the lines that `finetune.evaluate` prints below the metrics.

        Args:
            results: Result of `evaluate`, or of `combine` for several seeds.
        """
        return ()

    def sections(self, results: Mapping, best: str) -> list:
        """Returns sections of the report of several runs, made with `keras_attn.reports.page`.

        Args:
            results: Content of results.json of the folder.
            best: Address of the report of the best run.
        """
        return []

    def _unsuited(self, command, model):
        return UserError(
            f"`python -m {command}` does not support models for {self.name}. Use "
            f"`{self.command}`. Received: {model.path}"
        )

    def describe_head(self, trained: Any) -> str:
        """Returns settings without weights that runs of other tasks do not take from a model.

        Args:
            trained: `TrainedModel`, whose weights another task trains; "" if there are none.
        """
        return ""

    # Checkpoints of other libraries. A family that supports `transformers` converts models of tasks
    # with `TaskFields.huggingface_class`; these methods describe their head.

    def head_layers(self, heads: Mapping) -> dict[str, tuple[str, int]] | None:
        """Returns the dense layers of the head by name: their names in `transformers` and sizes.

        `{"logits_dense": ("classifier", 3)}` is `classifier.weight` and `classifier.bias`. None if
        the head does not consist of dense layers on the hidden states; then the formats of a family
        describe it, or do not support it. The layers count in the memory estimate of a run.

        Args:
            heads: Arguments of the head.
        """
        return None

    def read_head(
        self, config: Mapping, path: str, dropout: str | None = None
    ) -> tuple[dict, dict]:
        """Returns the arguments of the head and `TrainedModel.files`, such as the labels.

        Args:
            config: Content of a config.json, with defaults.
            path: Path of the file, for messages.
            dropout: Field with the dropout rate of the head; None: the head has no dropout.

        Raises:
            UserError: If a field is invalid.
        """
        return {}, {}

    def write_head(self, trained: Any, dropout: str | None = None) -> dict:
        """Returns the fields of config.json for `read_head`.

        Args:
            trained: `TrainedModel`.
            dropout: See `read_head`.
        """
        return {}

    def for_task(self, trained: Any, task: str) -> Any:
        """Returns the `TrainedModel` whose heads are converted to those of another task.

        It is the same, unless a second backbone in the model has the heads of the task.

        Args:
            trained: `TrainedModel`.
            task: Name of the other task.
        """
        return trained

    def for_other_libraries(self, trained: Any) -> Any:
        """Returns a `TrainedModel` with a head that other libraries can represent."""
        return trained
