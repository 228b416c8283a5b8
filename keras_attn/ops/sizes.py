"""Sizes of tensors, which may be known to the running graph alone."""

from keras import ops


def at_least(size, least):
    """The larger one of two sizes.

    Args:
        size: Integer, integer scalar, or a symbol of JAX, which stands for `least` or more.
        least: Integer.
    """
    if isinstance(size, int):
        return max(size, least)
    return ops.maximum(size, least) if ops.is_tensor(size) else size
