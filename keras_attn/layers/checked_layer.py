"""Validation of the tensors passed to a layer."""

import functools
import inspect
from typing import Any

import keras

from keras_attn.layers.shapes import (
    require_axes,
    require_dense,
    require_tensor,
    shape_of,
    shape_text,
)
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


class CheckedLayer(keras.layers.Layer):
    """A layer whose calls validate that inputs are dense tensors with matching shapes.

    They raise a ValueError in terms of the arguments, where backends would report an error in terms
    of their own operations. Subclasses may override:

    - `AXES`: The axes of the inputs, in the format of `require_axes`.
    - `SAME_BATCH`: Names of inputs whose batch axis does not broadcast.
    - `MASKED_INPUTS`: The inputs that each mask may belong to.
    """

    AXES: dict[str, str] = dict.fromkeys(("query", "value", "key", "inputs", "encoded"), "B...")
    SAME_BATCH: tuple[str, ...] = ()
    MASKED_INPUTS: dict[str, tuple[str, ...]] = MASKED_INPUTS

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        names = _call_parameters(type(self))  # type: ignore[arg-type]  # classes are hashable
        arguments = dict(zip(names, args, strict=False)) | kwargs
        arguments = {name: x for name, x in arguments.items() if x is not None}
        for name, x in arguments.items():
            (require_tensor if name in self.AXES else require_dense)(type(self).__name__, name, x)
        self.require_axes(
            **{name: shape_of(x) for name, x in arguments.items() if name in self.AXES}
        )
        for mask in self.MASKED_INPUTS.keys() & arguments.keys() & set(names):
            self._check_mask(mask, arguments)
        _require_attention_mask(type(self).__name__, arguments)
        return super().__call__(*args, **kwargs)

    def require_axes(self, **shapes: Shape | None) -> None:
        """Raises a ValueError if a named shape does not match `AXES`."""
        require_axes(type(self).__name__, self.AXES, shapes, self.SAME_BATCH)

    def _check_mask(self, name, arguments):
        mask = arguments[name]
        of = next((of for of in self.MASKED_INPUTS[name] if of in arguments), None)
        if not hasattr(mask, "shape") or not hasattr(arguments.get(of), "shape"):
            return
        shape, expected = tuple(mask.shape), tuple(arguments[of].shape)[:-1]
        if name not in ("query_mask", "memory_mask") and _has_cache_or_memory(arguments):
            expected = (expected[0], None)
        if len(shape) != len(expected) or not _broadcasts(shape, expected):
            raise ValueError(
                f"{type(self).__name__}: {name} must be of shape {shape_text(expected)}. "
                f"Received: {name} of shape {shape_text(shape)}"
            )


@functools.cache
def _call_parameters(kind):
    return tuple(inspect.signature(kind.call).parameters)[1:]


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
