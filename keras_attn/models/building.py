"""Methods of models that need weights."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

_Method = TypeVar("_Method", bound=Callable[..., Any])


def needs_weights(method: _Method) -> _Method:
    """The method, which builds the model where that has not been done; as a call does."""

    @functools.wraps(method)
    def built(model: Any, *args: Any, **kwargs: Any) -> Any:
        if not model.built:
            model.build()
        return method(model, *args, **kwargs)

    return cast(_Method, built)
