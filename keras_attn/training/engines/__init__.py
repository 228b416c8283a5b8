"""Engines run training steps on devices; each is registered by a line in `keras_attn.registry`.

This package does not import Keras, because commands import the modules `fields` of engines in it.
"""

from typing import TYPE_CHECKING, Any

from keras_attn.declarations import EngineFields
from keras_attn.errors import UserError, check_choice, nearest
from keras_attn.registry import DEFAULT_ENGINE, ENGINES

if TYPE_CHECKING:
    from keras_attn.training.engines.contract import Engine

__all__ = ["check_several_runs", "make_engine"]


def make_engine(name: str = DEFAULT_ENGINE, **options: Any) -> "Engine":
    """Makes an engine.

    Args:
        name: One of `ENGINES`.
        **options: Options of the engine, as its `EngineFields` declare them.

    Raises:
        UserError: If the name or an option is unknown, Keras uses another backend than the engine,
            or the devices do not exist.
    """
    _checked_fields(name, options)
    return ENGINES[name](**options)


def check_several_runs(name: str = DEFAULT_ENGINE, **options: Any) -> None:
    """Raises a `UserError` if one process cannot train several models consecutively.

    Args:
        name, **options: Arguments of `make_engine`.
    """
    _checked_fields(name, options).check_several_runs(**options)


def _checked_fields(name: str, options: dict[str, Any]) -> EngineFields:
    import keras

    check_choice("engine", name, tuple(ENGINES))
    fields = ENGINES.fields(name)
    for option, value in options.items():
        if option not in fields.options:
            raise UserError(
                f"The engine {name} has no option {option!r}. It has "
                f"{', '.join(fields.options) or 'none'}"
                f"{nearest(option, fields.options)}"
            )
        fields.options[option].check(option, value)
    if keras.backend.backend() != fields.backend:
        raise UserError(
            f"The engine {name} requires Keras on {fields.backend}. Set "
            f"KERAS_BACKEND={fields.backend} before Keras is imported. "
            f"Received: KERAS_BACKEND={keras.backend.backend()}"
        )
    return fields
