"""What layers and models ask of the numbers that they are made with."""

import numbers


def require_sizes(optional=False, **sizes):
    """Raises a ValueError for a size that is not a positive integer.

    Args:
        optional: Whether None is taken, too.
        **sizes: By name of the argument.
    """
    for name, size in sizes.items():
        if optional and size is None:
            continue
        if not isinstance(size, numbers.Integral) or isinstance(size, bool):
            raise ValueError(f"{name} must be an integer{' or None' if optional else ''}. "
                             f"Received: {name}={size!r}")
        if size < 1:
            raise ValueError(f"{name} must be positive. Received: {name}={size}")


def require_rates(optional=False, **rates):
    """Raises a ValueError for a dropout rate that is not a number in [0, 1).

    Args:
        optional: Whether None is taken, too.
        **rates: By name of the argument.
    """
    for name, rate in rates.items():
        if optional and rate is None:
            continue
        if not isinstance(rate, numbers.Real) or not 0 <= rate < 1:
            raise ValueError(f"{name} must be in [0, 1). Received: {name}={rate!r}")
