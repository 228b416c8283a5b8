"""Fields of a saved config, checked against their declarations."""

import math
from reprlib import repr as shorten

from keras_attn.errors import UserError
from keras_attn.jobs.fields import LOWEST
from keras_attn.saved_config import DEFAULTS


def checked(config, kind, path):
    """The config out of a config.json, each field of the type that it is declared with.

    Args:
        config: Nested dict.
        kind: Of the run.
        path: Of the file, for messages.

    Returns:
        A nested dict without the fields that are null though they must have a value: they count as
        missing. Fields that are not declared, of other versions, stay as they are.

    Raises:
        UserError: Names the first field of another type or out of range.
    """
    if kind not in DEFAULTS:
        return config
    found = _typed(config, DEFAULTS[kind](), path, "")
    for name, lowest, allowed in LOWEST:
        group, field = name.split(".")
        value = found.get(group, {}).get(field)
        if isinstance(value, (int, float)) and not (
                lowest < value < math.inf or allowed and value == lowest):
            bound = f"at least {lowest}" if allowed else f"above {lowest}"
            raise UserError(f"{name} must be {bound}. Received: {value} in {path}")
    return found


def _typed(found, declared, path, prefix):
    typed = {}
    for name, value in found.items():
        known = declared.get(name)
        if name not in declared:
            typed[name] = value
        elif isinstance(known, type(declared)):
            if not isinstance(value, dict):
                raise UserError(f"{prefix}{name} must be an object. Received: {shorten(value)} in "
                                f"{path}")
            typed[name] = _typed(value, known, path, f"{prefix}{name}.")
        elif value is not None or known is None:
            try:
                if isinstance(value, bool) and declared.get_type(name) is not bool:
                    raise TypeError
                declared[name] = value  # which checks the type
            except (TypeError, ValueError) as error:
                raise UserError(f"{prefix}{name} must be of type {declared.get_type(name).__name__}"
                                f". Received: {shorten(value)} in {path}") from error
            typed[name] = value
    return typed
