"""Checks of a config's fields before any work is done."""

from keras_attn.data.pretraining import SEGMENTS
from keras_attn.defaults import (
    ENDS,
    NOT_NEGATIVE,
    POSITIVE,
    fields,
    finetuning_defaults,
    violated_bound,
)
from keras_attn.errors import UserError, check_choice, nearest
from keras_attn.saved_config import DEFAULTS
from keras_attn.text import subwords
from keras_attn.training import optimizers, schedules

CHOICES = {
    "train.precision": ("float32", "mixed_bfloat16", "mixed_float16"),
    "train.optimizer": optimizers.NAMES,
    "train.schedule": schedules.NAMES,
    "data.on_bad_text": ("error", "skip"),
    "data.segments": SEGMENTS,
    "data.subwords": subwords.KINDS,
    "model.pooling": ("cls", "mean"),
    "model.initial_embeddings": ("cooccurrences", "random"),
    "model.positions": ("sinusoidal", "learned"),
    "model.initial_bias": ("frequencies", "zeros"),
}
BELOW_ONE = ("train.warmup_fraction", "train.beta_2", "model.dropout", "model.attention_dropout",
             "model.label_smoothing", "data.holdout")


def check_fields(kind, config):
    """Checks names, choices and ranges.

    Args:
        kind: One of `DEFAULTS`.
        config: ConfigDict of a run.

    Raises:
        UserError: Names the first field that is wrong.
    """
    known, given = dict(fields(DEFAULTS[kind]())), dict(fields(config))
    for path in sorted({*known, *given}):
        if path not in known:
            raise UserError(f"Unknown config field of {kind}. Received: {path}"
                            + nearest(path, known))
        if given.get(path) is None and known[path] is not None:
            raise UserError(f"{path} must have a value. Received: {path}=None")
    ends = [name for name in ENDS if config.train[name] is not None]
    if len(ends) > 1 or not (ends or DEFAULTS[kind] is finetuning_defaults):
        raise UserError("One of train.steps, train.epochs and train.minutes must be set, and the "
                        f"others None. Received: {' and '.join(ends) or 'none'}")
    for path, choices in CHOICES.items():
        value = _value(config, path)
        if value is not None:
            check_choice(path, value, choices)
    if config.train.schedule == "inverse_sqrt" and not config.train.warmup_fraction > 0:
        raise UserError("train.schedule=inverse_sqrt needs a warmup. Received: "
                        f"train.warmup_fraction={config.train.warmup_fraction}")
    for path in (*POSITIVE, *NOT_NEGATIVE):
        value = _value(config, path)
        if value is None:
            continue
        if bound := violated_bound(path, value):
            raise UserError(f"{path} must be {bound}. Received: {path}={value}")
        if path in BELOW_ONE and value >= 1:
            raise UserError(f"{path} must be below 1. Received: {path}={value}")


def _value(config, path):
    group, name = path.split(".")
    return config[group].get(name)
