"""What families, tasks and engines declare of themselves, read without Keras or TensorFlow."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from keras_attn.field import Field


@dataclasses.dataclass(frozen=True)
class Option(Field):
    """An option of a command that only some tasks take.

    Attributes:
        flag: Name of its flag; "": that of the option.
        reads: Whether it names files that the command reads, which its output must not replace.
    """

    flag: str = ""
    reads: bool = False


def _nothing(*args, **kwargs):
    return None


@dataclasses.dataclass(frozen=True, kw_only=True)
class EngineFields:
    """What the commands know of an engine before Keras is imported.

    The module `fields` of an engine has an instance named `FIELDS`. It imports neither Keras nor
    a backend, because the Keras backend is set by it.

    Attributes:
        backend: The Keras backend: "tensorflow", "jax" or "torch".
        options: `Field`s of the arguments of the engine's class, which are flags of `pretrain` and
            `finetune`.
        check_several_runs: Function of the options that raises a `UserError` if a process cannot
            train several models, one after the other.
        in_cluster: Function that returns whether this process is one of several workers.
        lost_worker: Function of an exception that returns the line of its message which says that
            another worker was lost; None if it says no such thing.
    """

    backend: str
    options: Mapping[str, Field] = dataclasses.field(default_factory=dict)
    check_several_runs: Callable[..., None] = _nothing
    in_cluster: Callable[[], bool | None] = _nothing
    lost_worker: Callable[[BaseException], str | None] = _nothing


@dataclasses.dataclass(frozen=True, kw_only=True)
class FamilyFields:
    """What the commands know of a family before its module `family` is imported.

    The module `fields` of a family has an instance named `FIELDS`. It imports neither Keras nor
    TensorFlow, so that `--help` is fast.

    Attributes:
        name: Name in the registry.
        model: `Field`s of `config.model` for pretraining. Those that are no arguments of the
            backbone are for the task: masked language modeling reads `next_sentence`,
            `initial_embeddings`, `initial_bias` and `new_heads` if they are there.
        formats: Checkpoint formats: `workdir`, and a module of the package for each other one.
        libraries: Names of the libraries whose checkpoints it reads, for `--help`.
        config_files: Files that identify a folder, and the format of each, such as
            `{"bert_config.json": "google"}`.
        huggingface_type: `model_type` in the config.json of transformers; None: not supported.
        kerashub_backbone: `registered_name` in a preset of KerasHub; None: not supported.
        keras_classes: Classes that `keras.saving.load_model` must find, by module, besides those
            of `keras_attn.layers` and `keras_attn.models`.
    """

    name: str
    model: Mapping[str, Field]
    formats: tuple[str, ...] = ("workdir",)
    libraries: tuple[str, ...] = ()
    config_files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    huggingface_type: str | None = None
    kerashub_backbone: str | None = None
    keras_classes: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskFields:
    """What the commands know of a task before its module `task` is imported.

    The module `fields` of a task has an instance named `FIELDS`. It imports neither Keras nor
    TensorFlow, so that `--help` is fast.

    Attributes:
        command: "pretrain" or "finetune", which trains it; None: its models are only converted.
        family: Name of the family of a config that names none.
        config: Function of the `FamilyFields` of a family. Returns the `Field`s of a config by
            section; see `keras_attn.tasks.finetuning.fields.finetuning_fields` and
            `keras_attn.tasks.pretraining.fields.pretraining_fields`.
        names: Values of `data.task` that select it, besides its name.
        summary: What `data.task` selects, for the help of that field; "": it is not listed there.
        joint: `Field`s by section that it adds to the config of `finetuning_defaults()`, which is
            that of all tasks whose `config` is `joint_fields`.
        metrics: Names of its metrics. Several seeds have their means; the first one selects models
            unless `eval.metric` names another.
        data: Name of the option of `finetune.evaluate` that names the data.
        options: Options of its own by command ("evaluate", "export" or "predict") and name.
        files: Names of the files that it writes to a workdir.
        huggingface_class: What the names of its classes in transformers end with, such as
            "ForTokenClassification"; None: it has none.
        convert_heads: Values of `--task` of `keras_attn.convert` that select it, and the arguments
            of the head.
        keras_classes: Classes that `keras.saving.load_model` must find, by module, besides those
            of `keras_attn.layers` and `keras_attn.models`.
    """

    command: str | None
    family: str
    config: Callable[[FamilyFields], dict]
    names: tuple[str, ...] = ()
    summary: str = ""
    joint: Mapping[str, Mapping[str, Field]] = dataclasses.field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    data: str = "data"
    options: Mapping[str, Mapping[str, Option]] = dataclasses.field(default_factory=dict)
    files: tuple[str, ...] = ()
    huggingface_class: str | None = None
    convert_heads: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    keras_classes: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
