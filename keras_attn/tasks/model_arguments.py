"""Arguments of heads in workdirs, and supported precisions."""

from keras_attn.errors import UserError


def with_defaults(heads, defaults):
    """Returns the arguments of a head, with defaults for those that older workdirs lack.

    Raises:
        ValueError: If an argument is unknown.
    """
    if not heads.keys() <= defaults.keys():
        raise ValueError(heads)
    return {**defaults, **heads}


def require_float32(trained, precision):
    """Raises a `UserError` for a precision that only text generation supports."""
    if precision != "float32":
        raise UserError(
            f"precision={precision} is supported for text generation only. Use "
            f"precision=float32. Received: {trained.path}, of {trained.kind}"
        )
