"""Validation of the tensors passed to a layer."""

import functools
import inspect
import itertools
from typing import Any

import keras
from keras import ops

from keras_attn.layers.shapes import (
    require_axes,
    require_dense,
    require_tensor,
    shape_of,
    shape_text,
)
from keras_attn.ops.masks import require_mask
from keras_attn.types import Shape

# The inputs that each mask may belong to; the first one given is used. Layers check other masks
# themselves.
MASKED_INPUTS = {
    "query_mask": ("query",),
    "value_mask": ("value", "query"),
    "mask": ("inputs", "query"),
    "padding_mask": ("inputs",),
    "memory_mask": ("memory",),
    "encoded_mask": ("encoded",),
    "first_mask": ("first",),
    "second_mask": ("second",),
    "source_mask": ("source",),
}
# Inputs that are vectors of numbers, not ids, positions or masks.
_VECTORS = {
    "query",
    "value",
    "key",
    "inputs",
    "encoded",
    "memory",
    "content",
    "first",
    "second",
    "source",
    "target",
}


class CheckedLayer(keras.layers.Layer):
    """A layer whose calls validate that inputs are dense tensors with matching shapes.

    They raise a ValueError in terms of the arguments, where backends would report an error in terms
    of their own operations. Vectors of integers or booleans are cast to the layer's compute dtype.
    Subclasses may override:

    - `AXES`: The axes of the inputs, in the format of `require_axes`.
    - `SAME_BATCH`: Names of inputs whose batch axis does not broadcast.
    - `MASKED_INPUTS`: The inputs that each mask may belong to.
    """

    AXES: dict[str, str] = dict.fromkeys(("query", "value", "key", "inputs", "encoded"), "B...")
    SAME_BATCH: tuple[str, ...] = ()
    MASKED_INPUTS: dict[str, tuple[str, ...]] = MASKED_INPUTS

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        names = _call_parameters(type(self))  # type: ignore[arg-type]  # classes are hashable
        given = dict(zip(names, args, strict=False)) | kwargs
        arguments = {name: x for name, x in given.items() if x is not None}
        missing = [name for name in given.keys() - arguments.keys() if names.get(name)]
        # With a projected memory there is no value.
        if missing and not _has_cache_or_memory(arguments):
            raise ValueError(f"{type(self).__name__}: {missing[0]} is required. Received: None")
        for name, x in arguments.items():
            (require_tensor if name in self.AXES else require_dense)(type(self).__name__, name, x)
        self.require_axes(
            **{name: shape_of(x) for name, x in arguments.items() if name in self.AXES}
        )
        for mask in self.MASKED_INPUTS.keys() & arguments.keys() & names.keys():
            self._check_mask(mask, arguments)
        _require_attention_mask(type(self).__name__, arguments)
        cast = _Cast(self.compute_dtype)
        args = tuple(
            cast(x) if name in _VECTORS else x
            for name, x in itertools.zip_longest(list(names)[: len(args)], args)
        )
        kwargs = {name: cast(x) if name in _VECTORS else x for name, x in kwargs.items()}
        return super().__call__(*args, **kwargs)

    def require_axes(self, **shapes: Shape | None) -> None:
        """Raises a ValueError if a named shape does not match `AXES`."""
        require_axes(type(self).__name__, self.AXES, shapes, self.SAME_BATCH)

    def _check_mask(self, name, arguments):
        mask = arguments[name]
        of = next((of for of in self.MASKED_INPUTS[name] if of in arguments), None)
        if not hasattr(mask, "shape") or not hasattr(arguments.get(of), "shape"):
            return
        require_mask(mask, name)
        shape, expected = tuple(mask.shape), tuple(arguments[of].shape)[:-1]
        if name not in ("query_mask", "memory_mask") and _has_cache_or_memory(arguments):
            expected = (expected[0], None)
        if len(shape) != len(expected) or not _broadcasts(shape, expected):
            raise ValueError(
                f"{type(self).__name__}: {name} must be of shape {shape_text(expected)}. "
                f"Received: {name} of shape {shape_text(shape)}"
            )


class _Cast:
    """Casts integers and booleans to a dtype; the same object becomes the same object."""

    def __init__(self, dtype):
        self._dtype = dtype
        self._known = {}

    def __call__(self, x):
        if id(x) not in self._known:
            self._known[id(x)] = self._cast(x)
        return self._known[id(x)]

    def _cast(self, x):
        if not hasattr(x, "shape") or not hasattr(x, "dtype"):
            return x
        dtype = keras.backend.standardize_dtype(x.dtype)
        if dtype != "bool" and "int" not in dtype:
            return x
        found = ops.cast(x, self._dtype)
        if (mask := getattr(x, "_keras_mask", None)) is not None:
            found._keras_mask = mask
        return found


@functools.cache
def _call_parameters(kind):
    """Returns `{name: whether the argument is required}` of the call of a layer class."""
    parameters = list(inspect.signature(kind.call).parameters.items())[1:]
    return {
        name: found.default is found.empty and name not in ("args", "kwargs")
        for name, found in parameters
    }


def _has_cache_or_memory(arguments):
    """Whether the call also attends to a cache or memory, which its masks then cover."""
    return "cache" in arguments or "memory" in arguments


def _require_attention_mask(owner, arguments):
    mask = arguments.get("attention_mask")
    query = arguments.get("query", arguments.get("inputs"))
    if (
        not hasattr(mask, "shape")
        or len(getattr(query, "shape", ())) != 3
        or (_has_cache_or_memory(arguments))
    ):
        return
    value = arguments.get("value")
    batch, length = query.shape[:2]
    expected = (batch, None, length, (query if value is None else value).shape[1])
    shape = tuple(mask.shape)
    places = expected if len(shape) == 4 else (batch, *expected[2:])
    if len(shape) > 4 or not _broadcasts(shape, places[len(places) - len(shape) :]):
        raise ValueError(
            f"{owner}: attention_mask must broadcast to the shape of the attention weights, "
            f"{shape_text((batch, *expected[2:]))}, or with heads {shape_text(expected)}. "
            f"Received: attention_mask of shape {shape_text(shape)}"
        )


def _broadcasts(shape, expected):
    return all(None in (a, b) or a == b or a == 1 for a, b in zip(shape, expected, strict=True))
