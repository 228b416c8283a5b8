"""Declarations of families, tasks and engines, which need neither Keras nor a backend."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from keras_attn.field import Field


@dataclasses.dataclass(frozen=True)
class Option(Field):
    """An option of a command that only some tasks support.

    Attributes:
        flag: Name of the flag; "": the name of the option.
        reads: Whether the value names input files, which the output must not overwrite.
    """

    flag: str = ""
    reads: bool = False


# Formats of texts; see `keras_attn.data.sources.table_formats`. All but `lines` may have labels.
TABLES = ("tsv", "quoted_tsv", "csv", "jsonl", "parquet", "lines", "label_text")


def _nothing(*args, **kwargs):
    return None


def _table_formats():
    labeled = tuple(name for name in TABLES if name != "lines")
    return {"evaluate": labeled, "predict": TABLES}


@dataclasses.dataclass(frozen=True, kw_only=True)
class EngineFields:
    """Declaration of an engine, which the commands read before Keras is imported.

    The module `fields` of an engine defines an instance named `FIELDS`. It imports neither Keras
    nor a backend, because it selects the Keras backend.

    Attributes:
        backend: The Keras backend: "tensorflow", "jax" or "torch".
        options: `Field`s of the constructor arguments of the engine, which become flags of
            `pretrain` and `finetune`.
        fixed: Values of config fields that do not apply to the engine, by dotted name, such as
            `{"train.jit": True}` if it always compiles. Its runs have these values, with a warning
            where the config sets another one.
        check_several_runs: Function that receives the options as keyword arguments, and raises a
            `UserError` if one process cannot train several models consecutively.
        in_cluster: Function that returns whether this process is one of several workers.
        lost_worker: Function that receives an exception, and returns the line of its message that
            reports a lost worker, or None.
    """

    backend: str
    options: Mapping[str, Field] = dataclasses.field(default_factory=dict)
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    check_several_runs: Callable[..., None] = _nothing
    in_cluster: Callable[[], bool | None] = _nothing
    lost_worker: Callable[[BaseException], str | None] = _nothing


@dataclasses.dataclass(frozen=True, kw_only=True)
class FamilyFields:
    """Declaration of a family, which the commands read before its module `family` is imported.

    The module `fields` of a family defines an instance named `FIELDS`. It imports neither Keras
    nor TensorFlow, so that `--help` is fast.

    Attributes:
        name: Name in the registry.
        model: `Field`s of `config.model` for pretraining and translation. The task reads those that
            are not arguments of the backbone: masked language modeling reads `next_sentence`,
            `initial_embeddings`, `initial_bias` and `new_heads` if they are declared.
        data: `Field`s of `config.data` for pretraining, in place of those of the task.
        finetuning: `Field`s of `config.model` for the other finetuning tasks, in addition to the
            shared ones or in place of them.
        pretrains: Name of the task that `pretrain` trains by default.
        formats: Checkpoint formats: `workdir`, and others, each a module of the family's package.
        missing_formats: Reasons why the family lacks formats, by format, for errors.
        libraries: Names of the libraries whose checkpoints are supported, for `--help`.
        config_files: Format by the name of the file that identifies a checkpoint folder, such as
            `{"bert_config.json": "google"}`.
        huggingface_types: Values of `model_type` in the config.json of transformers.
        kerashub_backbone: `registered_name` in a KerasHub preset; None: not supported.
        published: Values of the paper for config fields of pretraining, by dotted name, for
            `keras_attn.defaults.as_published`.
        keras_classes: Names of the classes that `keras.saving.load_model` must find, by module, in
            addition to `keras_attn.layers` and `keras_attn.models`. A class that is registered with
            another package than "keras_attn" has the name `package>Class`.
    """

    name: str
    model: Mapping[str, Field]
    data: Mapping[str, Field] = dataclasses.field(default_factory=dict)
    finetuning: Mapping[str, Field] = dataclasses.field(default_factory=dict)
    pretrains: str = "masked_lm"
    formats: tuple[str, ...] = ("workdir",)
    missing_formats: Mapping[str, str] = dataclasses.field(default_factory=dict)
    libraries: tuple[str, ...] = ()
    config_files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    huggingface_types: tuple[str, ...] = ()
    kerashub_backbone: str | None = None
    published: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    keras_classes: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskFields:
    """Declaration of a task, which the commands read before its module `task` is imported.

    The module `fields` of a task defines an instance named `FIELDS`. It imports neither Keras nor
    TensorFlow, so that `--help` is fast.

    Attributes:
        command: Command that trains the task, "pretrain" or "finetune"; None: models are only
            converted.
        family: Name of the default family.
        config: Function that receives the `FamilyFields` of a family, and returns the `Field`s of
            a config by section; see `keras_attn.tasks.finetuning.fields.finetuning_fields` and
            `keras_attn.tasks.pretraining.fields.pretraining_fields`.
        names: Values of `data.task` that select the task, in addition to its name.
        summary: Description for the help of `data.task`; "": not listed there.
        configs: Further values of `--config`: the config file and its argument by name, such as
            `{"sst2": "glue:sst2"}`.
        joint: `Field`s by section that the task adds to the config of `finetuning_defaults()`,
            which all tasks with `config=joint_fields` share.
        metrics: Names of the metrics, which are averaged over seeds. The first one is the default
            metric of model selection.
        lower_is_better: Names of the metrics whose lower values are better, in addition to `loss`.
        data: Name of the option of `finetune.evaluate` that names the data.
        options: Task-specific options by command ("evaluate", "export" or "predict") and name.
        formats: Values of `--format` by command ("evaluate" or "predict").
        outputs: File name endings of the output of `finetune.predict`.
        files: Names of the files that the task writes to a workdir.
        loaded: Class of the result of `keras_attn.load`, with its module, for the API reference;
            "": not listed there.
        huggingface_class: Suffix of the class names in transformers, such as
            "ForTokenClassification"; None: not supported.
        convert_heads: Arguments of the head by the value of `--task` of `keras_attn.convert`.
        keras_classes: Names of the classes that `keras.saving.load_model` must find, by module, in
            addition to `keras_attn.layers` and `keras_attn.models`.
    """

    command: str | None
    family: str
    config: Callable[[FamilyFields], dict]
    names: tuple[str, ...] = ()
    summary: str = ""
    configs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    joint: Mapping[str, Mapping[str, Field]] = dataclasses.field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    lower_is_better: tuple[str, ...] = ()
    data: str = "data"
    options: Mapping[str, Mapping[str, Option]] = dataclasses.field(default_factory=dict)
    formats: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=_table_formats)
    outputs: tuple[str, ...] = (".tsv", ".csv", ".jsonl", ".json")
    files: tuple[str, ...] = ()
    loaded: str = ""
    huggingface_class: str | None = None
    convert_heads: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    keras_classes: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    def prefers_lower(self, metric: str) -> bool:
        """Returns whether lower values of a metric are better."""
        return metric == "loss" or metric in self.lower_is_better

    @property
    def pretrains(self) -> bool:
        """Whether runs of the task pretrain on text without labels."""
        return self.command == "pretrain"
