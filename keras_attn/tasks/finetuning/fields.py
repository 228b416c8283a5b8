"""Config fields that finetuning tasks share."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping

from keras_attn.declarations import FamilyFields
from keras_attn.field import Field
from keras_attn.registry import FAMILIES, TASKS
from keras_attn.shared_fields import (
    CHECKPOINT,
    EVAL,
    TEXT,
    TRAINING,
    describe_sources,
    run_fields,
)

LENGTH = Field(
    int,
    "maximum sequence length in tokens; if unset, the length of the longest text, up to the "
    "model's positions",
    above=0,
    chosen=True,
)
_DATA = {
    "train": Field(
        str,
        "training data: docstrings, a file, a glob, a comma-separated list, - for standard "
        "input (with data.format), tfds:NAME[:SPLIT], or the folder of a GLUE task; if unset, the "
        "GLUE task data.task from TFDS",
    ),
    "validation": Field(
        str,
        "validation data, in the forms of data.train; if unset, the validation split of "
        "docstrings, or of a GLUE task whose data.train is a folder or unset, else data.holdout",
    ),
    "holdout": Field(
        0.1,
        "fraction of the examples (or questions) of data.train held out for validation if "
        "there is no validation data; 0: none",
        low=0,
        below=1,
    ),
    "limit": Field(
        int, "number of training examples, sampled with data.seed; if unset, all", above=0
    ),
    "seed": Field(
        int,
        "random seed of data.limit and data.holdout; if unset, train.seed (the first of several)",
        low=0,
    ),
    "by_length": Field(
        bool,
        "whether to batch texts of similar length, for less padding, but slower learning at "
        "first; if unset, True unless packed",
    ),
    **TEXT,
    "length": LENGTH,
}
_MODEL = {
    "family": Field(str, "model family; if unset, from `pretrained`, else bert", chosen=True),
    "size": Field(
        str,
        "model size without `pretrained`: tiny, mini, small, medium, base or large; if unset, tiny",
    ),
    "dropout": Field(0.1, "dropout rate", low=0, below=1),
    "new_heads": Field(
        False, "whether to initialize the pooler randomly if `pretrained` does not contain it"
    ),
}
_TRAINING = {
    **TRAINING,
    "epochs": Field(
        float,
        "length of the run in epochs over data.train; if steps, epochs and minutes are "
        "unset, chosen from the number of examples",
        above=0,
        chosen=True,
    ),
    "learning_rate": Field(
        float,
        "peak learning rate; if unset, chosen from the hidden size and whether the model "
        "is a released one",
        above=0,
        chosen=True,
    ),
    "seeds": Field(
        1,
        "number of runs, with consecutive seeds from train.seed; results are mean, standard "
        "deviation and 95 % confidence interval",
        low=1,
    ),
    "layer_decay": Field(
        1.0,
        "layer-wise learning rate decay: factor from each layer to the one below",
        above=0,
        high=1,
    ),
    "freeze": Field(
        0, "number of lowest layers to freeze, together with the embeddings; 0: none", low=0
    ),
}
_SEARCH = {
    "learning_rates": Field(
        str,
        "learning rates to search, such as 2e-5,3e-5,5e-5; the best by eval.metric is "
        "selected; if unset, no search",
    ),
    "batch_sizes": Field(
        str, "batch sizes to search with each learning rate, such as 16,32; if unset, no search"
    ),
}
PATIENCE = Field(
    int,
    "early stopping: evaluations without a better eval.metric before the run ends; if unset, no "
    "early stopping",
    above=0,
    resume="any",
)
_SELECTION = {
    "patience": PATIENCE,
    "report": Field(
        True,
        "whether to write report.html at the end: errors, calibration and metrics",
        resume="any",
    ),
}


def metric_field(metrics: Iterable[str], unset: str = "the last weights") -> Field:
    """Returns the field `eval.metric`.

    Args:
        metrics: Names of the metrics of the tasks that share the config.
        unset: Weights that are kept if the field is unset.
    """
    names = ", ".join([*dict.fromkeys(metrics), "loss"])
    return Field(
        str, f"validation metric that selects the weights to keep: {names}; if unset, {unset}"
    )


def finetuning_fields(family: FamilyFields, own: Mapping, metrics: Iterable[str] = ()) -> dict:
    """Returns the config fields of a finetuning task.

    Args:
        family: Declaration of the family.
        own: `Field`s of the task by section, in addition to the shared ones.
        metrics: Names of the metrics that `eval.metric` may select.
    """
    summaries = [TASKS.fields(name).summary for name in TASKS]
    task = Field(str, "; ".join([*filter(None, summaries), "if unset, single_label"]))
    found = {
        **run_fields(describe_sources(map(FAMILIES.fields, FAMILIES.registered))),
        "data": {"task": task, **_DATA},
        "model": {**_MODEL, **family.finetuning},
        "train": _TRAINING,
        "search": _SEARCH,
        "eval": {
            **EVAL,
            "every": dataclasses.replace(EVAL["every"], default=500),
            "metric": metric_field(metrics),
            **_SELECTION,
        },
        "checkpoint": CHECKPOINT,
    }
    return _joined(found, own)


def joint_fields(family: FamilyFields) -> dict:
    """Returns the config fields of `finetuning_defaults()`, in which `data.task` selects the task:
    the shared ones, and `TaskFields.joint` of each task."""
    tasks = [TASKS.fields(name) for name in TASKS]
    joint = [task for task in tasks if task.config is joint_fields]
    metrics = [metric for task in joint for metric in task.metrics]
    own = functools.reduce(_joined, (task.joint for task in tasks))
    return finetuning_fields(family, own, metrics)


def _joined(first, second):
    return {**first, **{name: {**first.get(name, {}), **second[name]} for name in second}}
