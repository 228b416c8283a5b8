"""Sizes of tensors, which may only be known at run time."""

from keras import ops


def at_least(size, least):
    """The maximum of a size and a lower bound.

    Args:
        size: Integer, integer scalar, or a JAX symbol, which is assumed to be at least `least`.
        least: Integer.
    """
    if isinstance(size, int):
        return max(size, least)
    return ops.maximum(size, least) if ops.is_tensor(size) else size
