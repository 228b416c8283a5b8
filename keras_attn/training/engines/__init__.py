"""Engines run training steps on devices; one is registered by a line in `keras_attn.registry`."""

import importlib
from typing import Any

from keras_attn.errors import check_choice
from keras_attn.registry import ENGINES
from keras_attn.training.engines.contract import Engine, Evaluator, Step

__all__ = ["ENGINES", "Engine", "Evaluator", "Step", "make_engine"]


def make_engine(name: str = "tensorflow", **options: Any) -> Engine:
    """Makes an engine.

    Args:
        name: One of `ENGINES`.
        **options: Of the engine: which devices it uses.

    Raises:
        UserError: If the name is unknown, or the devices do not exist.
    """
    check_choice("engine", name, tuple(ENGINES))
    return importlib.import_module(ENGINES[name]).make_engine(**options)
