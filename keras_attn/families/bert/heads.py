"""A trained BERT with other heads."""

import dataclasses

import numpy as np

from keras_attn.errors import UserError
from keras_attn.families.bert.tensors import shapes
from keras_attn.training.variables import variables_by_path

TASKS = ("pretraining", "masked_lm", "encoder")


def with_task(trained, task, new_heads):
    """Leaves heads out that a task does not have, and adds those that it has.

    Args:
        trained: `TrainedModel`.
        task: One of `TASKS`, or None: nothing changes.
        new_heads: Whether heads may be added, at random.

    Returns:
        (the `TrainedModel`, names of the heads that were added).

    Raises:
        UserError: If the task is unknown, or heads are missing that may not be added.
    """
    if task is None:
        return trained, []
    if task not in TASKS:
        raise UserError(f"task must be one of {', '.join(TASKS)}. Received: task={task}")
    name, heads = "backbone", {}
    if task != "encoder":
        name = "masked_lm"
        heads = {"next_sentence": task == "pretraining",
                 "tie_embeddings": trained.heads.get("tie_embeddings", True)}
    architecture, family = {**trained.architecture}, trained.family
    if task != "encoder":
        architecture["use_pooler"] = task == "pretraining"
    wanted = shapes(architecture, name, heads)
    missing = {path for path in wanted if path not in trained.weights}
    added = sorted({trained.head_of(path) for path in missing})
    if missing and not new_heads:
        raise UserError(f"{trained.path} has no weights for {', '.join(added)}. Use new_heads=True "
                        "(--new_heads) to initialize them randomly")
    weights = {path: trained.weights[path] for path in wanted if path not in missing}
    if missing:
        model, prefix = family.build(name, architecture, heads, seed=0), family.prefix(name)
        model.build()
        variables = {path.removeprefix(prefix): variable
                     for path, variable in variables_by_path(model).items()}
        weights |= {path: np.asarray(variables[path].value) for path in missing}
    same = trained.task == name
    return dataclasses.replace(
        trained, task=name, architecture=architecture, heads=heads, weights=weights, labels=None,
        pairs=None, threshold=None, config=trained.config if same else None), added
