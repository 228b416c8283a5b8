"""Arguments of models that come from workdirs, and what models can be used as."""

from keras_attn.errors import UserError


def with_defaults(heads, defaults):
    """Returns arguments of a head, with those that a workdir of an older version lacks.

    Raises:
        ValueError: If there are others than the defaults have.
    """
    if not heads.keys() <= defaults.keys():
        raise ValueError(heads)
    return {**defaults, **heads}


def require_float32(trained, precision):
    """Raises a `UserError` for a precision that only models that generate text take."""
    if precision != "float32":
        raise UserError(
            f"precision={precision} is supported for text generation only. Use "
            f"precision=float32. Received: {trained.path}, of {trained.kind}"
        )
