"""What finetuning chooses for any task: rows, batches, the model to train, the best weights."""

import numpy as np

from keras_attn.data.splits import hold_out
from keras_attn.errors import UserError, check_choice
from keras_attn.registry import TASKS
from keras_attn.training.best import Best

# Of packed batches XLA compiles each shape, which takes as long as 50 steps of BERT-mini on 2
# cores: so many numbers of rows at most, and no shorter rows.
ROW_COUNTS = 16
SHORTEST_PACKED = 64


def check_training(run, num_layers):
    """Checks fields of `config.train` that depend on the model.

    Args:
        run: `Run`.
        num_layers: Of the model.
    """
    train = run.config.train
    if train.freeze > num_layers:
        raise UserError(
            f"train.freeze must be in [0, {num_layers}], the layers of the model. "
            f"Received: train.freeze={train.freeze}"
        )
    if train.freeze and not (run.resumed or run.pretrained):
        raise UserError(
            "train.freeze needs weights that were trained: --pretrained. Received: random ones"
        )


def rows_drawn(count, limit, seed):
    """Numbers of the rows to train on: all, or `limit` of them drawn by the seed."""
    if limit is None or limit >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).permutation(count)[:limit])


def choose_rows(run, splits, unit, labels=None):
    """The splits of a run, with validation held out where there is none, and training rows drawn.

    Args:
        run: `Run`.
        splits: Dict of `train` and `validation`: objects with a length, `texts`, `text_pairs` (or
            None) and `take(rows)`, such as `Table`; false where there is none.
        unit: What is held out, for the message.
        labels: Function of the training split; see `hold_out`. None: no classes.
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
        raise UserError(
            "Comparing runs requires validation data. Set data.validation or data.holdout"
        )
    if config.metric is None and config.patience is None:
        return None
    names = [*names, "loss"]
    metric = config.metric or names[0]
    check_choice("eval.metric", metric, tuple(dict.fromkeys([*names, *others])))
    if not validation:
        raise UserError(
            f"eval.metric={metric} requires validation data. Set data.validation or data.holdout"
        )
    if config.patience is not None and not config.every:
        raise UserError(
            "eval.patience requires evaluations during training. Received: eval.every=0"
        )
    lower = TASKS.fields(run.task.name).prefers_lower(metric)
    return Best(metric, config.patience, lower)


def told_lengths(lengths, of):
    """Tokens of rows or passages, in words."""
    median, most = np.percentile(lengths, [50, 95])
    return f"tokens a {of}: median {median:.0f}, 95 % up to {most:.0f}, longest {np.max(lengths):,}"


def tell_few_rows(run, count, what):
    """Says that no batch of training is full, if so."""
    if count < run.config.train.batch_size:
        run.say(
            f"fewer {what} than a batch of {run.config.train.batch_size}, which is filled up "
            "with empty ones: lower train.batch_size"
        )


def choose_buckets(run):
    """Buckets of `TextExamples` for a run."""
    packed = run.config.data.pack > 1
    if run.engine.fixed_shapes:
        if packed:
            raise UserError(
                "A TPU needs batches of one shape; packed ones vary in rows. "
                f"Received: data.pack={run.config.data.pack}"
            )
        return ()
    return batch_lengths(run.config.data.length, jit=run.config.train.jit, packed=packed)


def batch_lengths(length, *, jit, packed):
    """Buckets of `TextExamples`: without XLA, which compiles each, they cost nothing.

    Of packed batches it compiles each number of rows, too.
    """
    if not jit:
        return range(8, length, 8)
    if not packed:
        return None
    return (length // 2,) if length >= 2 * SHORTEST_PACKED else ()
