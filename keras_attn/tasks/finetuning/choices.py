"""Choices that finetuning tasks share: rows, batch shapes, model selection."""

import numpy as np

from keras_attn.data.splits import hold_out
from keras_attn.errors import UserError, check_choice
from keras_attn.registry import TASKS
from keras_attn.training.best import Best

# XLA compiles each shape of packed batches, which takes as long as 50 steps of BERT-mini on 2
# cores: maximum number of distinct row counts, and minimum row length.
ROW_COUNTS = 16
SHORTEST_PACKED = 64


def check_training(run, num_layers):
    """Checks fields of `config.train` that depend on the model.

    Args:
        run: `Run`.
        num_layers: Number of layers of the model.

    Raises:
        UserError: If `train.freeze` is invalid.
    """
    train = run.config.train
    if train.freeze > num_layers:
        raise UserError(
            f"train.freeze must be in [0, {num_layers}], the number of layers. "
            f"Received: train.freeze={train.freeze}"
        )
    if train.freeze and not (run.resumed or run.pretrained):
        raise UserError(
            "train.freeze requires pretrained weights. Set --pretrained. "
            f"Received: train.freeze={train.freeze}"
        )


def reject_fields(config, task, names):
    """Raises a `UserError` if one of these fields, which a task does not support, is set."""
    for name in names:
        section, _, field = name.partition(".")
        if (value := config[section].get(field)) is not None:
            raise UserError(f"{name} must be unset with data.task={task}. Received: {name}={value}")


def rows_drawn(count, limit, seed):
    """Returns the numbers of the training rows: all, or `limit` rows sampled with the seed."""
    if limit is None or limit >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).permutation(count)[:limit])


def choose_rows(run, splits, unit, labels=None):
    """Holds out a validation split if there is none, and samples `data.limit` training rows.

    Args:
        run: `Run`.
        splits: Dict of `train` and `validation`: objects with a length, `texts`, `text_pairs` (or
            None) and `take(rows)`, such as `Table`; false if there is no validation split.
        unit: What a row is, for the message.
        labels: Function of the training split; see `hold_out`. None: no stratification.

    Returns:
        Dict of the splits.
    """
    data, train = run.config.data, splits["train"]
    seed = run.config.train.seed if data.seed is None else data.seed
    validation = splits["validation"]
    if not validation and data.holdout:
        train, validation = hold_out(train, data.holdout, seed, labels and labels(train))
        run.say(f"held out for validation: {100 * data.holdout:.3g} % of the {unit} (data.holdout)")
    return {"train": train.take(rows_drawn(len(train), data.limit, seed)), "validation": validation}


def choose_best(run, names, validation, others=()):
    """Returns the `Best` that selects an evaluation; None if the run keeps its last weights.

    Args:
        run: `Run`.
        names: Names of the metrics; the first one is the default.
        validation: Validation data; false if there is none.
        others: Names of metrics that are computed only if they are selected.

    Raises:
        UserError: If the metric is unknown, or there is no validation data.
    """
    config = run.config.eval
    if run.compared and not validation:
        raise UserError(f"Comparing runs requires validation data. {_advice(run.config.data)}")
    if config.metric is None and config.patience is None:
        return None
    names = [*names, "loss"]
    metric = config.metric or names[0]
    check_choice("eval.metric", metric, tuple(dict.fromkeys([*names, *others])))
    if not validation:
        raise UserError(
            f"eval.metric={metric} requires validation data. {_advice(run.config.data)}"
        )
    if config.patience is not None and not config.every:
        raise UserError(
            "eval.patience requires evaluations during training. Received: eval.every=0"
        )
    lower = TASKS.fields(run.task.name).prefers_lower(metric)
    return Best(metric, config.patience, lower)


def _advice(data):
    """Returns how a run gets validation data."""
    if "holdout" in data:
        return "Set data.validation or data.holdout"
    return "Set data.validation.source"  # of a task with several files per split


def describe_lengths(lengths, unit):
    """Returns a line with the percentiles of the numbers of tokens of rows or passages."""
    median, most = np.percentile(lengths, [50, 95])
    longest = f"{np.max(lengths):,}"
    return f"tokens per {unit}: median {median:.0f}, 95 % up to {most:.0f}, longest {longest}"


def warn_of_few_rows(run, count, unit):
    """Prints a hint if there are fewer training rows than a batch has."""
    if count < run.config.train.batch_size:
        run.say(
            f"fewer {unit} than train.batch_size={run.config.train.batch_size}: the batch is "
            "padded with empty rows. Lower train.batch_size"
        )


def choose_buckets(run):
    """Returns the `buckets` of `TextExamples` for a run."""
    packed = run.config.data.pack > 1
    if run.engine.fixed_shapes:
        if packed:
            raise UserError(
                "data.pack must be 1 on devices that require batches of one shape. "
                f"Received: data.pack={run.config.data.pack}, {run.engine.describe()}"
            )
        return ()
    return batch_lengths(run.config.data.length, jit=run.config.train.jit, packed=packed)


def batch_lengths(length, *, jit, packed):
    """Returns the `buckets` of `TextExamples`, few with XLA, which compiles each length.

    XLA also compiles each number of rows of packed batches.
    """
    if not jit:
        return range(8, length, 8)
    if not packed:
        return None
    return (length // 2,) if length >= 2 * SHORTEST_PACKED else ()
