"""Validation of numeric arguments of layers, models and functions."""

import math
import numbers


def require_sizes(optional=False, low=1, **sizes):
    """Raises a ValueError for a size that is not an integer of at least `low`.

    Args:
        optional: Whether None is accepted.
        low: Minimum size.
        **sizes: Sizes by argument name.
    """
    named = {0: "a non-negative integer", 1: "a positive integer"}
    expected = named.get(low, f"an integer of at least {low}")
    _require(sizes, numbers.Integral, lambda size: size >= low, expected, optional)


def require_lengths(**lengths):
    """Raises a ValueError for a length that is a number but not a non-negative integer.

    Tensors, and symbols that represent a size in a graph, are accepted.
    """
    for name, length in lengths.items():
        if length is None or isinstance(length, (numbers.Number, str)):
            require_sizes(low=0, **{name: length})


def require_integers(optional=False, **integers):
    """Raises a ValueError for a value that is not an integer. Arguments as in `require_sizes`."""
    _require(integers, numbers.Integral, lambda _: True, "an integer", optional)


def require_numbers(optional=False, **values):
    """Raises a ValueError for a value that is not a finite number."""
    _require(values, numbers.Real, math.isfinite, "a finite number", optional)


def require_positive(optional=False, **values):
    """Raises a ValueError for a value that is not a finite, positive number."""
    _require(values, numbers.Real, lambda x: 0 < x < math.inf, "a positive number", optional)


def require_not_negative(optional=False, **values):
    """Raises a ValueError for a value that is not a finite, non-negative number."""
    _require(values, numbers.Real, lambda x: 0 <= x < math.inf, "a non-negative number", optional)


def require_rates(optional=False, **rates):
    """Raises a ValueError for a dropout rate that is not a number in [0, 1)."""
    _require(rates, numbers.Real, lambda rate: 0 <= rate < 1, "a number in [0, 1)", optional)


def require_probabilities(optional=False, **values):
    """Raises a ValueError for a value that is not a number in [0, 1]."""
    _require(values, numbers.Real, lambda x: 0 <= x <= 1, "a number in [0, 1]", optional)


def require_each(check, expected, **values):
    """Raises a ValueError if a value, or an element of a tuple or list, fails a check.

    Args:
        check: One of the functions above.
        expected: Description of valid values, for the message.
        **values: Values, tuples or lists by argument name.
    """
    for name, value in values.items():
        for element in value if isinstance(value, (tuple, list)) else (value,):
            try:
                check(element=element)
            except ValueError:
                raise ValueError(f"{name} must be {expected}. Received: {name}={value!r}") from None


def _require(values, kind, accepts, expected, optional):
    for name, value in values.items():
        if optional and value is None:
            continue
        # `bool` is a subclass of `Integral`, but True as a number is a mistake.
        if isinstance(value, bool) or not isinstance(value, kind) or not accepts(value):
            raise ValueError(
                f"{name} must be {expected}{' or None' if optional else ''}. "
                f"Received: {name}={value!r}"
            )
