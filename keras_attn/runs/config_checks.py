"""Checks of the config fields before any work is done."""

from keras_attn.defaults import ENDS, declared, default_config, fields
from keras_attn.errors import UserError, nearest
from keras_attn.registry import kind_of


def check_fields(config, task, family):
    """Checks the names, choices and ranges of all fields.

    Args:
        config: ConfigDict of a run.
        task, family: Names.

    Raises:
        UserError: Names the first invalid field.
    """
    known, given = dict(fields(default_config(task, family))), dict(fields(config))
    for path in sorted({*known, *given}):
        if path not in known:
            raise UserError(
                f"Unknown config field of {kind_of(family, task)}. Received: {path}"
                + nearest(path, known)
            )
        if given.get(path) is None and known[path] is not None:
            raise UserError(f"{path} must have a value. Received: {path}=None")
    ends = [name for name in ENDS if config.train[name] is not None]
    if len(ends) > 1:
        raise UserError(
            "Only one of train.steps, train.epochs and train.minutes can be set. "
            f"Received: {' and '.join(ends)}"
        )
    for path, field in declared(task, family).items():
        field.check(path, given.get(path))
    if config.train.schedule == "inverse_sqrt" and not config.train.warmup_fraction > 0:
        raise UserError(
            "train.schedule=inverse_sqrt requires a warmup. Received: "
            f"train.warmup_fraction={config.train.warmup_fraction}"
        )
    if (
        config.train.schedule == "wsd"
        and config.train.warmup_fraction + config.train.decay_fraction > 1
    ):
        raise UserError(
            "The warmup and the decay of train.schedule=wsd must fit into the run. Received: "
            f"train.warmup_fraction={config.train.warmup_fraction}, "
            f"train.decay_fraction={config.train.decay_fraction}"
        )


def check_batch_size(batch_size, accumulate, replicas):
    """Checks that replicas and micro-batches divide the global batch size."""
    if batch_size < 1 or accumulate < 1 or batch_size % (replicas * accumulate):
        raise UserError(
            "train.batch_size must be a multiple of train.accumulate times the number of "
            f"replicas. Received: train.batch_size={batch_size}, train.accumulate={accumulate}, "
            f"replicas={replicas}"
        )


def check_eval_batch_size(batch_size, replicas):
    """Checks that the replicas divide the batch size of evaluation."""
    if batch_size < 1 or batch_size % replicas:
        raise UserError(
            "eval.batch_size must be a multiple of the number of replicas. Received: "
            f"eval.batch_size={batch_size}, replicas={replicas}"
        )
