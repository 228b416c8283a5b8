"""Replaces the heads of a trained model."""

import dataclasses

import numpy as np

from keras_attn.convert import head_choices
from keras_attn.errors import UserError
from keras_attn.registry import TASKS
from keras_attn.training.variables import variables_by_path


def with_heads(trained, task, new_heads):
    """Returns a trained model with only the heads of a task.

    Args:
        trained: `TrainedModel`.
        task: One of `head_choices()`; None: the heads are unchanged.
        new_heads: Whether missing heads may be randomly initialized.

    Returns:
        The `TrainedModel`, and the names of the newly initialized heads.

    Raises:
        UserError: If the family does not support the task, or heads are missing and `new_heads` is
            False.
    """
    family = trained.family
    choices = {
        value: choice for value, choice in head_choices().items() if _is_supported(family, *choice)
    }
    if not choices and (task is not None or new_heads):
        raise UserError(
            f"task and new_heads are not supported for the family {family.name}. Received: "
            f"task={task}, new_heads={new_heads}, {trained.path}"
        )
    if task is None:
        return trained, []
    if task not in choices:
        raise UserError(f"task must be one of {', '.join(choices)}. Received: task={task}")
    name, heads = choices[task]
    trained = TASKS[trained.task].for_task(trained, name)
    same = trained.task == name
    heads = TASKS[name].complete_heads(
        {**(trained.heads if same else {}), **heads},
        trained.config,
        trained.files if same else {},
    )
    architecture, model = dict(trained.architecture), family.model_class(name)
    if model and family.has_pooler:
        architecture["use_pooler"] = model.uses_pooler(**heads)
    wanted = family.shapes(name, architecture, heads) or _initial_weights(
        family, name, architecture, heads
    )
    missing = wanted.keys() - trained.weights.keys()
    added = sorted({trained.head_of(path) for path in missing})
    if missing and not new_heads:
        raise UserError(
            f"{trained.path} has no weights for {', '.join(added)}. Use new_heads=True "
            "(--new_heads) to initialize them randomly"
        )
    weights = {path: trained.weights[path] for path in wanted if path not in missing}
    if missing:
        initial = _initial_weights(family, name, architecture, heads)
        weights |= {path: initial[path] for path in missing}
    return dataclasses.replace(
        trained,
        task=name,
        architecture=architecture,
        heads=heads,
        weights=weights,
        files=trained.files if same else {},
        config=trained.config if same else None,
    ), added


def _is_supported(family, task, heads):
    """Returns whether a family has a model for a task, and the pooler that its head requires."""
    if not family.supports(task):
        return False
    model = family.model_class(task)
    return not model or family.has_pooler or not model.uses_pooler(**heads)


def _initial_weights(family, task, architecture, heads):
    """Returns the weights of a randomly initialized model by path below the task model."""
    model, prefix = family.build(task, architecture, heads, seed=0), family.prefix(task)
    model.build()
    return {
        path.removeprefix(prefix): np.asarray(variable.value)
        for path, variable in variables_by_path(model).items()
    }
