"""Flags of declared fields and options."""

import functools
from typing import Any

from absl import flags

from keras_attn.field import Field

_DEFINE = {
    bool: flags.DEFINE_bool,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
}


def define_flag(name: str, field: Field) -> None:
    """Defines the flag of a field, with its default, choices and bounds.

    Args:
        name: Name of the flag.
        field: Its declaration.
    """
    if field.choices:
        flags.DEFINE_enum(name, field.value, list(field.choices), field.help)
        return
    define: Any = _DEFINE[field.value_type]
    define(name, field.value, field.help)
    if field.value_type in (int, float):
        flags.register_validator(name, functools.partial(_check_bounds, field))


def _check_bounds(field, value):
    bound = None if value is None else field.violated_bound(value)
    if bound:
        raise flags.ValidationError(f"must be {bound}")
    return True
