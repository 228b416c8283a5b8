"""The flag --engine, which is parsed before the other flags and before Keras is imported."""

import sys

from keras_attn.registry import DEFAULT_ENGINE, ENGINES


def engine_fields():
    """Returns the `EngineFields` of the engine that --engine names.

    --engine is parsed before the other flags, which depend on it, and before Keras is imported.
    """
    _, name = take_flag(sys.argv, "engine", DEFAULT_ENGINE)
    return ENGINES.fields(name if name in ENGINES else DEFAULT_ENGINE)  # the flag rejects others


def take_flag(arguments, flag, default):
    """Returns the other arguments, and the value of `--flag=VALUE` or `--flag VALUE`."""
    kept, value = [], default
    remaining = iter(arguments)
    for argument in remaining:
        name, has_value, given = argument.partition("=")
        if name not in (f"--{flag}", f"-{flag}"):
            kept.append(argument)
        else:
            value = given if has_value else next(remaining, "")
    return kept, value
