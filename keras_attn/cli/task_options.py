"""Flags of task-specific options."""

import dataclasses
import itertools
from typing import Any

from keras_attn.cli.field_flags import define_flag
from keras_attn.declarations import Option
from keras_attn.errors import UserError
from keras_attn.registry import TASKS


def define_task_flags(command: str) -> None:
    """Defines the flags of all task-specific options of a command, unset.

    Args:
        command: "evaluate", "export" or "predict".
    """
    for name, option in _options(command).items():
        unset = dataclasses.replace(option, default=option.value_type)
        define_flag(option.flag or name, unset)


def given_options(command: str, values: Any) -> dict[str, Any]:
    """Returns the options given on the command line, by name.

    Args:
        command: See `define_task_flags`.
        values: Object with the value of each flag as an attribute, such as `flags.FLAGS`.
    """
    given = {
        name: getattr(values, option.flag or name) for name, option in _options(command).items()
    }
    return {name: value for name, value in given.items() if value is not None}


def input_files(command: str, values: Any) -> list[str]:
    """Returns the values of the given options that name input files."""
    options = _options(command)
    return [value for name, value in given_options(command, values).items() if options[name].reads]


def task_formats(command: str) -> list[str]:
    """Returns the values of --format that the tasks declare.

    Args:
        command: "evaluate" or "predict".
    """
    declared = (TASKS.fields(task).formats.get(command, ()) for task in TASKS)
    return list(dict.fromkeys(itertools.chain.from_iterable(declared)))


def task_outputs() -> list[str]:
    """Returns the endings of the output of `finetune.predict` that the tasks declare."""
    declared = (TASKS.fields(task).outputs for task in TASKS if TASKS.fields(task).command)
    return list(dict.fromkeys(itertools.chain.from_iterable(declared)))


def _options(command: str) -> dict[str, Option]:
    """Returns the options of a command by name; tasks that share one must declare it alike."""
    found: dict[str, Option] = {}
    owners: dict[str, str] = {}
    for task in TASKS:
        for name, option in TASKS.fields(task).options.get(command, {}).items():
            if found.setdefault(name, option) != option:
                raise UserError(
                    f"The tasks {owners[name]} and {task} declare the option {name} of "
                    f"finetune.{command} differently. Rename one of them"
                )
            owners.setdefault(name, task)
    return found
