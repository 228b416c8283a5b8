"""Saved configs: checked, completed with missing fields, and compared when a run is resumed."""

import dataclasses
import json
from reprlib import repr as shorten

from keras_attn.defaults import ENDS, declared, default_config
from keras_attn.errors import UserError
from keras_attn.registry import ENGINES, FAMILIES, family_and_task


def complete(config, kind):
    """Adds the missing fields of a saved config, with the values of `Field.value_if_missing`.

    Args:
        config: Nested dict of a config.json.
        kind: Kind of the run; the config of an unknown kind is returned unchanged.

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
    if "lowercase" in defaults["data"]:  # saved configs contain the value that the run chose
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
    """Checks the types and bounds of the fields of a saved config.

    Args:
        config: Nested dict.
        kind: Kind of the run.
        path: Path of the config.json, for messages.

    Returns:
        A nested dict without the fields that are null but require a value, which count as missing.
        Unknown fields, of other versions, are not changed.

    Raises:
        UserError: Names the first field with an invalid type or value.
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
                defaults[name] = value  # checks the type
            except (TypeError, ValueError) as error:
                raise UserError(
                    f"{prefix}{name} must be of type {defaults.get_type(name).__name__}"
                    f". Received: {shorten(value)} in {path}"
                ) from error
            typed[name] = value
    return typed


def check_same(old, new, fields):
    """Checks that a resumed run has its saved config.

    Args:
        old, new: Nested dicts of the saved config and of the config of the resumed run.
        fields: Dict of the `Field`s by dotted name; `Field.resume` determines which may differ.

    Raises:
        UserError: Names the fields that differ and must not.
    """
    changed = changed_fields(old, new, fields)
    fixed = {
        name: change
        for name, change in changed.items()
        if name not in fields or fields[name].resume == "same"
    }
    if fixed:
        ends = [f"train.{end}" for end in ENDS]
        advice = f"Restore the old value{'s' if len(fixed) > 1 else ''}"
        if end := next((name for name in fixed if name in ends), None):
            advice += f" and leave {' and '.join(name for name in ends if name != end)} unset"
        received = (f"{name}={found}, was {was}" for name, (was, found) in fixed.items())
        raise UserError(
            f"A resumed run cannot change {' and '.join(fixed)}. {advice}, or choose another "
            f"--workdir. Received: {'; '.join(received)}"
        )


def changed_fields(old, new, fields):
    """Returns `{dotted name: (old value, new value)}` of the fields that differ.

    Args:
        old, new, fields: See `check_same`.
    """
    new = flatten(json.loads(json.dumps(new)))
    missing = {name: fields[name].value_if_missing for name in new if name in fields}
    old = {**missing, **flatten(old)}
    return {
        name: (old.get(name), new.get(name))
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    }


def fields_to_keep(old, new, fields):
    """Returns the values that a resumed run takes from the saved config.

    Args:
        old, new, fields: See `check_same`.

    Returns:
        Dict from dotted names to values: the choices of the run for unset fields, and the fields
        that are only used at the start of a run.
    """
    old, new = flatten(old), flatten(new)
    ends = [f"train.{name}" for name in ENDS]
    given = any(new.get(name) is not None for name in ends)
    return {
        name: old[name]
        for name, field in fields.items()
        if name in new
        and old.get(name) is not None
        and (field.resume == "first" or field.chosen and new[name] is None)
        and not (given and name in ends)
    }


def fields_of_another_engine(fields, *engines):
    """Returns the fields of a run that another engine resumes.

    Values that an engine fixes are kept from the first start, because data may depend on them.

    Args:
        fields: See `check_same`.
        *engines: Names of the engine that trained the run, and of the one that resumes it.
    """
    fixed = {path for name in engines if name in ENGINES for path in ENGINES.fields(name).fixed}
    kept = {path: dataclasses.replace(fields[path], resume="first") for path in fixed & {*fields}}
    return {**fields, **kept}


def flatten(tree, prefix=""):
    """Flattens a nested dict to dotted names."""
    flat = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            flat.update(flatten(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat
