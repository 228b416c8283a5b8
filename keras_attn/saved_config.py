"""The config of a run as it was saved: its fields checked, with those that its version lacked."""

from reprlib import repr as shorten

from ml_collections import ConfigDict

from keras_attn.defaults import declared, default_config
from keras_attn.errors import UserError
from keras_attn.registry import FAMILIES, family_and_task

# What versions without these fields did, where it is not what the default is now.
_BEFORE = {"initial_embeddings": "random"}


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
    defaults = default_config(task, family).to_dict()
    del defaults["workdir"]
    for name in _BEFORE.keys() & defaults["model"].keys():
        defaults["model"][name] = _BEFORE[name]
    if "lowercase" in defaults["data"]:  # None is for a run that has not begun
        defaults["data"]["lowercase"] = FAMILIES[family].tokenizers.lowercase
    return _merged(defaults, config)


def _merged(defaults, given):
    both = {name: _merged(defaults[name], value)
            if isinstance(value, dict) and isinstance(defaults.get(name), dict) else value
            for name, value in given.items()}
    return {**defaults, **both}


def add_missing(config, defaults):
    """Adds the fields that a ConfigDict lacks, of a config file that was written out by hand."""
    with config.unlocked():
        for name, value in defaults.items():
            if name not in config:
                config[name] = value
            elif isinstance(value, ConfigDict) and isinstance(config[name], ConfigDict):
                add_missing(config[name], value)


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
    for name, field in declared(task, family).items():
        group, _, leaf = name.rpartition(".")
        value = found.get(group, {}).get(leaf) if group else None
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
                raise UserError(f"{prefix}{name} must be an object. Received: {shorten(value)} in "
                                f"{path}")
            typed[name] = _typed(value, known, path, f"{prefix}{name}.")
        elif value is not None or known is None:
            try:
                if isinstance(value, bool) and defaults.get_type(name) is not bool:
                    raise TypeError
                defaults[name] = value  # which checks the type
            except (TypeError, ValueError) as error:
                raise UserError(f"{prefix}{name} must be of type {defaults.get_type(name).__name__}"
                                f". Received: {shorten(value)} in {path}") from error
            typed[name] = value
    return typed
