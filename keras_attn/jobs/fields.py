"""Checks of a config's fields before any work is done."""

import math

from keras_attn.data.pretraining import SEGMENTS
from keras_attn.defaults import ENDS, fields, finetuning_defaults
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
# Field, lowest value, whether that value itself is allowed.
LOWEST = (
    ("train.steps", 0, False), ("train.epochs", 0, False), ("train.minutes", 0, False),
    ("train.batch_size", 0, False), ("train.accumulate", 0, False),
    ("train.learning_rate", 0, False), ("train.weight_decay", 0, True),
    ("train.clip_norm", 0, True), ("train.seed", 0, True), ("train.warmup_fraction", 0, True),
    ("train.freeze", 0, True),
    ("eval.every", 0, True), ("eval.batch_size", 0, False), ("eval.limit", 0, False),
    ("eval.patience", 0, False), ("data.holdout", 0, True), ("data.seed", 0, True),
    ("checkpoint.every", 0, False), ("checkpoint.keep", 0, False),
    ("checkpoint.average", 0, False), ("train.batch_tokens", 0, False), ("train.beta_2", 0, True),
    ("eval.beam", 0, False), ("eval.length_penalty", 0, True), ("model.label_smoothing", 0, True),
    ("model.attention_dropout", 0, True),
    ("data.length", 0, False), ("data.pack", 0, False), ("data.limit", 0, False),
    ("data.max_line", 0, False),
    ("data.windows", 0, True),
    ("data.vocab_size", 0, False), ("data.max_question", 0, False), ("data.stride", 0, False),
    ("data.max_answer", 0, False),
    ("model.dropout", 0, True), ("model.initializer_range", 0, False),
)
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
    for path, lowest, allowed in LOWEST:
        value = _value(config, path)
        if value is None:
            continue
        if not math.isfinite(value) or value < lowest or (value == lowest and not allowed):
            bound = f"at least {lowest}" if allowed else f"above {lowest}"
            raise UserError(f"{path} must be {bound}. Received: {path}={value}")
        if path in BELOW_ONE and value >= 1:
            raise UserError(f"{path} must be below 1. Received: {path}={value}")


def _value(config, path):
    group, name = path.split(".")
    return config[group].get(name)
