"""The config.json of `transformers`."""

import os
from collections.abc import Iterable, Mapping
from reprlib import repr as shorten
from typing import Any

from keras_attn.data.sources.table_formats import is_text
from keras_attn.errors import UserError
from keras_attn.io.json_files import read_object
from keras_attn.registry import TASKS


def models_of(family: Any, prefix: str, own: Mapping[str, str]) -> dict[str, str]:
    """Returns the classes of `transformers` for a family and the task of each.

    Args:
        family: `keras_attn.families.contract.Family`.
        prefix: Prefix of the class names, such as "Bert".
        own: Further classes, for pretraining and without a head, and their tasks; they replace
            those that tasks declare. The preferred class of a task is first.
    """
    suffixes = {task: TASKS.fields(task).huggingface_class for task in TASKS}
    declared = {
        prefix + suffix: task
        for task, suffix in suffixes.items()
        if suffix and family.supports(task)
    }
    return {**own, **declared, **own}  # first, and not replaced


def check_config(
    folder: str, config: Mapping | None, defaults: Mapping, models: Iterable[str]
) -> tuple[str, dict, str]:
    """Returns the path of config.json, its content with defaults, and the class name of the model.

    Args:
        folder: The folder.
        config: Content of the file, if it has been read already.
        defaults: Defaults of `transformers` for missing fields.
        models: Names of the supported classes.

    Raises:
        UserError: If `architectures` names another class.
    """
    path = os.path.join(folder, "config.json")
    config = {**defaults, **(config or read_object(path))}
    found = config.get("architectures")
    if found not in [[name] for name in models]:
        raise UserError(
            f"architectures must name one of {', '.join(models)}. "
            f"Received: {shorten(found)} in {path}"
        )
    return path, config, found[0]


def read_optional(folder: str, name: str) -> dict:
    """Returns the content of a JSON file in a folder; {} if it does not exist."""
    path = os.path.join(folder, name)
    return read_object(path) if os.path.isfile(path) else {}


def model_of_task(models: Mapping[str, str], task: str) -> str:
    """Returns the class name for a task.

    Args:
        models: Dict from class names to tasks, the preferred class of a task first.
        task: Name of the task.

    Raises:
        UserError: If there is none.
    """
    for name, own in models.items():
        if own == task:
            return name
    raise UserError(
        f"transformers has no model for {task} in this family, only for "
        f"{', '.join(dict.fromkeys(models.values()))}"
    )


def check_class_names(names, field, path):
    """Raises a `UserError` unless the class names are distinct strings.

    Args:
        names: List of names in a JSON file; empty for regression.
        field, path: Field and path of the file, for the message.
    """
    if not isinstance(names, list) or not all(
        isinstance(name, str) and is_text(name) for name in names
    ):
        raise UserError(
            f"{field} must be a list of strings, one for each class. "
            f"Received: {shorten(names)} in {path}"
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(
            f"The names in {field} must be distinct. Received: {shorten(twice)} twice in {path}"
        )


def require_values(config: Mapping, values: Mapping, path: str) -> None:
    """Raises a `UserError` for a setting of which only one value is supported.

    Args:
        config: Content of config.json.
        values: Dict from fields to their only supported value.
        path: Path of the file.
    """
    for name, value in values.items():
        if config.get(name) != value:
            raise UserError(
                f"{name} must be {str(value)[:50]}. "
                f"Received: {name}={shorten(config.get(name))} in {path}"
            )


def read_id2label(config: Mapping, path: str) -> list[str]:
    """Returns the class names in `id2label`.

    Raises:
        UserError: If they are not numbered 0, 1, …, or are not distinct.
    """
    names = config["id2label"]
    try:
        labels = [names[str(number)] for number in range(len(names))]
    except (KeyError, TypeError):
        labels = None
    if not labels:
        raise UserError(
            f"id2label must name the classes 0, 1, …. Received: {shorten(names)} in {path}"
        )
    check_class_names(labels, "id2label", path)
    return labels


def id2label(labels: Iterable[str]) -> dict[str, str]:
    """Returns the field `id2label` of a list of class names."""
    return {str(number): label for number, label in enumerate(labels)}
