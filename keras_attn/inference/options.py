"""Options of commands that only some tasks have."""

from keras_attn.errors import UserError
from keras_attn.registry import TASKS


def check_options(task, command, options):
    """Checks the options of a command before it works with a model.

    Args:
        task: Name of the task of the model.
        command: "evaluate", "export" or "predict".
        options: Dict of values by name; None is unset.

    Returns:
        Those that are set.

    Raises:
        UserError: If the task does not have one of them, or its value is out of range.
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
