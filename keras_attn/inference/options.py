"""Checks of options that depend on the task of the model."""

from keras_attn.errors import UserError
from keras_attn.registry import TASKS


def check_options(task, command, options, format=None):
    """Checks the options of a command that its tasks declare.

    Args:
        task: Name of the task of the model.
        command: "evaluate", "export" or "predict".
        options: Dict of values by name; None: unset.
        format: Format of the input files; None: unset.

    Returns:
        Dict of the options that are set.

    Raises:
        UserError: If the task does not support an option or the format, or a value is invalid.
    """
    formats = TASKS.fields(task).formats.get(command, ())
    if format is not None and format not in formats:
        advice = f"Choose one of {', '.join(formats)}" if formats else "Leave it unset"
        raise UserError(
            f"finetune.{command} does not support this format for models for {task}. {advice}. "
            f"Received: format={format}"
        )
    declared = TASKS.fields(task).options.get(command, {})
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        if name not in declared:
            raise UserError(
                f"finetune.{command} has no {name} for models for {task}. Received: {name}={value}"
            )
        declared[name].check(name, value)
    return given
