"""Decorator for model methods that require weights."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

_Method = TypeVar("_Method", bound=Callable[..., Any])


def needs_weights(method: _Method) -> _Method:
    """Wraps a method so that it builds the model first if necessary, as a call does."""

    @functools.wraps(method)
    def built(model: Any, *args: Any, **kwargs: Any) -> Any:
        if not model.built:
            model.build()
        return method(model, *args, **kwargs)

    return cast(_Method, built)
