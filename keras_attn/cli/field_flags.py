"""Flags of declared fields and options."""

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
    """Defines the flag of a field, with its default, choices and lower bound.

    Args:
        name: Name of the flag.
        field: Its declaration.
    """
    if field.choices:
        flags.DEFINE_enum(name, field.value, list(field.choices), field.help)
        return
    define: Any = _DEFINE[field.value_type]
    bound = {"lower_bound": field.low} if field.value_type in (int, float) else {}
    define(name, field.value, field.help, **bound)
