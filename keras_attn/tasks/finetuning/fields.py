"""Config fields of finetuning tasks."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_attn.field import Field
from keras_attn.registry import FAMILIES, TASKS
from keras_attn.shared_fields import (
    CHECKPOINT,
    EVAL,
    TEXT,
    TRAINING,
    of_libraries,
    run_fields,
)

LENGTH = Field(
    int, "tokens of a row at most; if unset, the longest text, up to the model's positions",
    above=0, chosen=True)
_DATA = {
    "train": Field(
        str, "docstrings, file, glob, list with commas, - for standard input (with data.format), "
        "tfds:NAME[:SPLIT], or the folder of data.task; without: data.task in TFDS"),
    "validation": Field(
        str, "as data.train (a TFDS name without a split: its validation); without: that of "
        "docstrings, or of data.task where data.train is a folder or left out; else data.holdout"),
    "holdout": Field(
        0.1, "share of the rows, or questions, of data.train kept for validation where there is "
        "no other; 0: none", low=0, below=1),
    "limit": Field(int, "train on that many rows, drawn by data.seed", above=0),
    "seed": Field(
        int, "of the rows drawn and held out; without: train.seed, the first of several", low=0),
    "by_length": Field(
        bool, "batches of texts of similar length, for less padding; of all lengths they learn "
        "sooner; without: True unless packed"),
    **TEXT,
    "length": LENGTH,
}
_MODEL = {
    "family": Field(str, "family of the model; unset: that of `pretrained`, or bert", chosen=True),
    "size": Field(str, "without `pretrained`: tiny, mini, small, medium, base or large; tiny"),
    "dropout": Field(0.1, "share of values set to 0 in training", low=0, below=1),
    "new_heads": Field(False, "start the pooler at random where `pretrained` lacks it"),
}
_TRAINING = {
    **TRAINING,
    "epochs": Field(
        float, "passes over data.train; if neither steps, epochs nor minutes are set, chosen from "
        "the number of rows", above=0, chosen=True),
    "learning_rate": Field(
        float, "peak; if unset, chosen from the size of the model and what pretrained it", above=0,
        chosen=True),
    "seeds": Field(
        1, "number of runs, with seeds from train.seed on; the results are their mean, deviation "
        "and 95 % interval", low=1),
    "layer_decay": Field(
        1.0, "factor of the learning rate from each layer to the one below", above=0, high=1),
    "freeze": Field(0, "lowest layers that stay as they are, and the embeddings with them", low=0),
}
_SEARCH = {
    "learning_rates": Field(
        str, "such as 2e-5,3e-5,5e-5: try each, and take the best by eval.metric"),
    "batch_sizes": Field(str, "such as 16,32: likewise, with each learning rate"),
}
CHOICE = {
    "metric": Field(
        str, "keep the weights with which it was best in validation: accuracy, f1, f1_macro, "
        "f1_micro, matthews, pearson, exact, …, loss; without: last ones"),
    "patience": Field(
        int, "end after that many evaluations without a better eval.metric; without: at the end "
        "of the run", above=0, resume="any"),
    "report": Field(
        True, "write report.html at the end: what is got right and wrong, and how sure",
        resume="any"),
}


def finetuning_fields(own: Mapping) -> dict:
    """Returns the fields of a config of finetuning.

    Args:
        own: `Field`s of the task by section, besides those of every finetuning task.
    """
    summaries = [TASKS.fields(name).summary for name in TASKS]
    task = Field(str, "; ".join([*filter(None, summaries), "without: single_label"]))
    found = {
        **run_fields(of_libraries(map(FAMILIES.fields, FAMILIES.registered))),
        "data": {"task": task, **_DATA}, "model": _MODEL, "train": _TRAINING, "search": _SEARCH,
        "eval": {**EVAL, "every": dataclasses.replace(EVAL["every"], default=500), **CHOICE},
        "checkpoint": CHECKPOINT,
    }
    return _joined(found, own)


def joint_fields(family: Any) -> dict:
    """Returns the fields of the config of `finetuning_defaults()`, in which `data.task` selects the
    task: those of `finetuning_fields` and what each task has as `TaskFields.joint`."""
    found = finetuning_fields({})
    for name in TASKS:
        found = _joined(found, TASKS.fields(name).joint)
    return found


def _joined(first, second):
    return {**first, **{name: {**first.get(name, {}), **second[name]} for name in second}}
