"""Checks of task-specific options."""

from keras_attn.errors import UserError
from keras_attn.registry import TASKS


def check_options(task, command, options):
    """Checks the task-specific options of a command.

    Args:
        task: Name of the task of the model.
        command: "evaluate", "export" or "predict".
        options: Dict of values by name; None: unset.

    Returns:
        Dict of the options that are set.

    Raises:
        UserError: If the task does not support an option, or its value is invalid.
    """
    declared = TASKS.fields(task).options.get(command, {})
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        if name not in declared:
            raise UserError(
                f"finetune.{command} has no {name} for models for {task}. Received: {name}={value}"
            )
        declared[name].check(name, value)
    return given
