"""Checks of a config's fields before any work is done."""

from keras_attn.defaults import ENDS, declared, default_config, fields
from keras_attn.errors import UserError, nearest
from keras_attn.registry import kind_of


def check_fields(config, task, family):
    """Checks names, choices and ranges.

    Args:
        config: ConfigDict of a run.
        task, family: Names.

    Raises:
        UserError: Names the first field that is wrong.
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
            "One of train.steps, train.epochs and train.minutes must be set, and the "
            f"others None. Received: {' and '.join(ends)}"
        )
    for path, field in declared(task, family).items():
        field.check(path, given.get(path))
    if config.train.schedule == "inverse_sqrt" and not config.train.warmup_fraction > 0:
        raise UserError(
            "train.schedule=inverse_sqrt needs a warmup. Received: "
            f"train.warmup_fraction={config.train.warmup_fraction}"
        )
