"""Saved configs: checked, completed with the fields that their version lacked, and compared with
the config of a run that resumes them."""

import json
from reprlib import repr as shorten

from keras_attn.defaults import ENDS, declared, default_config
from keras_attn.errors import UserError
from keras_attn.registry import FAMILIES, family_and_task


def complete(config, kind):
    """Adds the fields that a saved config lacks, with their defaults.

    Args:
        config: Nested dict of a config.json.
        kind: Of its run; the config of a kind that is not known stays as it is.

    Returns:
        A new nested dict.
    """
    known = family_and_task(kind)
    if known is None:
        return config
    family, task = known
    defaults = default_config(task, family)
    defaults.update_from_flattened_dict(
        {name: field.value_if_missing for name, field in declared(task, family).items()}
    )
    defaults = defaults.to_dict()
    del defaults["workdir"]
    if "lowercase" in defaults["data"]:  # None is for a run that has not begun
        defaults["data"]["lowercase"] = FAMILIES[family].tokenizers.lowercase
    return _merged(defaults, config)


def _merged(defaults, given):
    both = {
        name: _merged(defaults[name], value)
        if isinstance(value, dict) and isinstance(defaults.get(name), dict)
        else value
        for name, value in given.items()
    }
    return {**defaults, **both}


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
    known = family_and_task(kind)
    if known is None:
        return config
    family, task = known
    found = _typed(config, default_config(task, family), path, "")
    values = flatten(found)
    for name, field in declared(task, family).items():
        value = values.get(name)
        if isinstance(value, (int, float)) and (bound := field.violated_bound(value)):
            raise UserError(f"{name} must be {bound}. Received: {value} in {path}")
    return found


def _typed(found, defaults, path, prefix):
    typed = {}
    for name, value in found.items():
        known = defaults.get(name)
        if name not in defaults:
            typed[name] = value
        elif isinstance(known, type(defaults)):
            if not isinstance(value, dict):
                raise UserError(
                    f"{prefix}{name} must be an object. Received: {shorten(value)} in {path}"
                )
            typed[name] = _typed(value, known, path, f"{prefix}{name}.")
        elif value is not None or known is None:
            try:
                if isinstance(value, bool) and defaults.get_type(name) is not bool:
                    raise TypeError
                defaults[name] = value  # which checks the type
            except (TypeError, ValueError) as error:
                raise UserError(
                    f"{prefix}{name} must be of type {defaults.get_type(name).__name__}"
                    f". Received: {shorten(value)} in {path}"
                ) from error
            typed[name] = value
    return typed


def check_same(old, new, fields):
    """Checks that a run is resumed with its own config.

    Args:
        old, new: Nested dicts of the saved config and of that of the run.
        fields: Dict of the `Field`s by dotted name, whose `resume` says which may differ.

    Raises:
        UserError: Names the first field that differs and may not.
    """
    new = flatten(json.loads(json.dumps(new)))
    missing = {name: fields[name].value_if_missing for name in new if name in fields}
    old = {**missing, **flatten(old)}
    for name in sorted({*old, *new}):
        is_fixed = name not in fields or fields[name].resume == "same"
        if is_fixed and old.get(name) != new.get(name):
            ends = name.removeprefix("train.") in ENDS
            raise UserError(
                f"A resumed run must keep {name}; choose another --workdir or the old value"
                f"{', and no other end of the run' if ends else ''}. "
                f"Received: {name}={new.get(name)}, was {old.get(name)}"
            )


def fields_to_keep(old, new, fields):
    """Values that a resumed run takes from the saved config.

    Args:
        old, new, fields: See `check_same`.

    Returns:
        Dict from dotted names to values: of unset fields what the run chose, and those that only
        the beginning of a run uses.
    """
    old, new = flatten(old), flatten(new)
    ends = [f"train.{name}" for name in ENDS]
    given = any(new.get(name) is not None for name in ends)  # another number of steps, say
    return {
        name: old[name]
        for name, field in fields.items()
        if name in new
        and old.get(name) is not None
        and (field.resume == "first" or field.chosen and new[name] is None)
        and not (given and name in ends)
    }


def flatten(tree, prefix=""):
    """A nested dict as one level, with dotted names."""
    flat = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            flat.update(flatten(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat
