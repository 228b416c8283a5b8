"""Default configs of runs, built from the fields that tasks and families declare."""

import functools
import operator

import ml_collections
from ml_collections.config_dict import placeholder

from keras_attn.registry import DEFAULT_TASKS, FAMILIES, TASKS, task_of_config

ENDS = "steps", "epochs", "minutes"  # fields of `train` of which one determines the end of a run


def pretraining_defaults() -> ml_collections.ConfigDict:
    """Returns the default config of masked language modeling; see `configs/bert_tiny.py`."""
    return default_config("masked_lm")


def language_modeling_defaults() -> ml_collections.ConfigDict:
    """Returns the default config of causal language modeling; see `configs/gpt2_small.py`."""
    return default_config("causal_lm")


def permutation_modeling_defaults() -> ml_collections.ConfigDict:
    """Returns the default config of permutation language modeling; see `configs/xlnet_small.py`."""
    return default_config("permutation_lm")


def finetuning_defaults() -> ml_collections.ConfigDict:
    """Returns the default config of finetuning; see `configs/classify.py`."""
    return default_config("classification")


def translation_defaults() -> ml_collections.ConfigDict:
    """Returns the default config of translation; see `configs/multi30k.py`."""
    return default_config("translation")


def default_config(task: str, family: str | None = None) -> ml_collections.ConfigDict:
    """Returns the default config of a task.

    Args:
        task: Name in `keras_attn.registry.TASKS`.
        family: Name in `keras_attn.registry.FAMILIES`; None: the default family of the task.
    """
    return _config(_nested_fields(task, family))


def declared(task: str, family: str | None = None) -> dict:
    """Returns the `Field`s of a config by dotted name; see `default_config`."""
    return dict(_flat(_nested_fields(task, family)))


def _nested_fields(task, family):
    found = TASKS.fields(task)
    return found.config(FAMILIES.fields(family or found.family))


def as_published(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Sets the fields of a pretraining config to the values in the paper of its family.

    Raises:
        ValueError: If the family does not declare them.
    """
    published = FAMILIES.fields(config.model.family).published
    if not published:
        raise ValueError(f"The family {config.model.family} declares no published values")
    config.update_from_flattened_dict(published)
    return config


def as_bert(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Sets the fields of a pretraining config to the values of Devlin et al. (2018)."""
    return as_published(config)


def match_task(config: ml_collections.ConfigDict, task: str, family: str | None = None) -> None:
    """Adds the fields of a task to a config, and removes those of other tasks.

    Missing fields, for example in a config file that does not use our defaults, are added with
    their defaults. Fields of other tasks of the same command are removed if they have their
    defaults.

    Args:
        config: ConfigDict, which is changed.
        task, family: See `default_config`.
    """
    own, command = declared(task, family), TASKS.fields(task).command
    others = [declared(name) for name in TASKS if TASKS.fields(name).command == command]
    with config.unlocked():
        for path, value in list(fields(config)):
            of_others = [other[path].value for other in others if path in other]
            if path not in own and value in of_others:
                _delete(config, path)
        _add_missing(config, default_config(task, family))


def _delete(config, path):
    *groups, name = path.split(".")
    group = functools.reduce(operator.getitem, groups, config)
    del group[name]
    if groups and not group:
        _delete(config, ".".join(groups))


def _add_missing(config, defaults):
    # With references, which have the types of unset fields.
    for name, value in defaults.items(preserve_field_references=True):
        if name not in config:
            config[name] = value
        elif isinstance(value, ml_collections.ConfigDict) and isinstance(
            config[name], ml_collections.ConfigDict
        ):
            _add_missing(config[name], value)


def select_task(config: ml_collections.ConfigDict, named: str) -> None:
    """Changes a config to the task of a new `data.task`, if that task has other fields.

    The default family of the old task changes to that of the new one.

    Args:
        config: ConfigDict, which is changed.
        named: New value of `data.task`.
    """
    old = task_of_config(config, DEFAULT_TASKS["finetune"])
    new = task_of_config({"data": {"task": named}}, old, TASKS.fields(old).command)
    family, default = config.model.get("family"), TASKS.fields(new).family
    if family == TASKS.fields(old).family != default:
        _change(config, declared(old, family), new, default)
    elif declared(new, family).keys() != declared(old, family).keys():
        match_task(config, new, family)
    else:
        return
    config.data.task = named


def select_family(config: ml_collections.ConfigDict, named: str, keep_task: bool = False) -> None:
    """Changes a config to the fields of a family, and fields at their defaults to its defaults.

    A config of `pretrain` changes to the task that the family pretrains by default.

    Args:
        config: ConfigDict, which is changed.
        named: New value of `model.family`.
        keep_task: Whether a config of `pretrain` keeps its task.
    """
    unnamed = DEFAULT_TASKS["finetune" if "task" in config.data else "pretrain"]
    task, family = task_of_config(config, unnamed), FAMILIES.fields(named)
    if config.model.get("family") == named:
        return
    old = declared(task, config.model.get("family"))
    if TASKS.fields(task).pretrains and not keep_task:
        task = family.pretrains
    _change(config, old, task, named)
    config.model.family = named


def _change(config, old, task, family):
    """Changes a config to a task and a family, and fields at their defaults to the new defaults.

    Args:
        config: ConfigDict, which is changed.
        old: `Field`s of the config by dotted name.
        task, family: Names.
    """
    with config.unlocked():
        for path, value in list(fields(config)):
            if path in old and value == old[path].value:
                _delete(config, path)
        match_task(config, task, family)


def _config(table):
    config = ml_collections.ConfigDict()
    for name, entry in table.items():
        if isinstance(entry, dict):
            config[name] = _config(entry)
        else:
            # A placeholder has a type, with which flags are parsed.
            config[name] = placeholder(entry.default) if entry.value is None else entry.value
    return config


def fields(config, prefix=""):
    """Yields the dotted names and values of all fields of a config."""
    for name, value in config.items():
        if isinstance(value, ml_collections.ConfigDict):
            yield from fields(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _flat(table, prefix=""):
    for name, entry in table.items():
        if isinstance(entry, dict):
            yield from _flat(entry, f"{prefix}{name}.")
        else:
            yield prefix + name, entry


def meaning(config, path):
    """Returns the help of a config field; "" for an unknown field."""
    unnamed = DEFAULT_TASKS["finetune" if "task" in config.get("data", {}) else "pretrain"]
    task, family = task_of_config(config, unnamed), config.get("model", {}).get("family")
    field = declared(task, family).get(path)
    return field.help if field else ""
