"""A stored BERT with other heads."""

import dataclasses

import numpy as np

from keras_attn.convert.bert_workdirs import MODELS, prefix_of
from keras_attn.errors import UserError
from keras_attn.families.bert.tensors import head_of, shapes
from keras_attn.models import BertEncoder, BertPretrainer
from keras_attn.training.variables import variables_by_path

TASKS = ("pretraining", "masked_lm", "encoder")


def with_task(stored, task, new_heads):
    """Leaves heads out that a task does not have, and adds those that it has.

    Args:
        stored: A `StoredBert`.
        task: One of `TASKS`, or None: nothing changes.
        new_heads: Whether heads may be added, at random.

    Returns:
        (the `StoredBert`, names of the heads that were added).

    Raises:
        UserError: If the task is unknown, or heads are missing that may not be added.
    """
    if task is None:
        return stored, []
    if task not in TASKS:
        raise UserError(f"task must be one of {', '.join(TASKS)}. Received: task={task}")
    kind, heads = "encoder", {}
    if task != "encoder":
        kind = "pretraining"
        heads = {"next_sentence": task == "pretraining",
                 "tie_embeddings": stored.heads.get("tie_embeddings", True)}
    architecture = {**stored.architecture}
    if task != "encoder":
        architecture["use_pooler"] = task == "pretraining"
    wanted = shapes(architecture, kind, heads)
    missing = {path for path in wanted if path not in stored.weights}
    names = sorted({head_of(path) for path in missing})
    if missing and not new_heads:
        raise UserError("Heads must be there, or be wanted anew (new_heads). "
                        f"Received: none of {', '.join(names)}")
    weights = {path: stored.weights[path] for path in wanted if path not in missing}
    if missing:
        weights |= {path: np.asarray(variable.value)
                    for path, variable in _initial(kind, architecture, heads) if path in missing}
    return dataclasses.replace(
        stored, kind=kind, architecture=architecture, heads=heads, weights=weights,
        labels=None, pairs=None, config=stored.config if stored.kind == kind else None), names


def _initial(kind, architecture, heads):
    """Variables of a new model by path below it."""
    model, prefix = BertEncoder(**architecture, seed=0, name="bert_encoder"), prefix_of(kind)
    if kind == "pretraining":
        model = BertPretrainer(model, **heads, name=MODELS[kind])
    model.build()
    return ((path.removeprefix(prefix), v) for path, v in variables_by_path(model).items())
