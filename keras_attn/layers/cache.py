"""Key-value cache for incremental decoding."""

from keras import ops

from keras_attn.layers.shapes import shape_text, sizes_differ
from keras_attn.ops import kernels

_KERNELS = kernels.of_backend("tensorflow")


def write_cache(cache, index, new, axis):
    """Writes new keys and values into the cache.

    Args:
        cache: Tuple of tensors, such as keys and values.
        index: Integer scalar, the position of the first new entry.
        new: Tuple of tensors with the same shapes except along `axis`.
        axis: The position axis.

    Returns:
        The full tensors, cast to the dtypes of the new entries, and the updated cache.

    Raises:
        ValueError: If the cache is too short or has another shape, as far as sizes are known.
    """
    for old, x in zip(cache, new, strict=True):
        expected = [*x.shape[:axis], old.shape[axis], *x.shape[axis + 1 :]]
        if any(map(sizes_differ, old.shape, expected)):
            raise ValueError(
                f"The cache must contain tensors of shape {shape_text(expected)}. "
                f"Received: a cache tensor of shape {shape_text(old.shape)}"
            )
    count, length = new[0].shape[axis], cache[0].shape[axis]
    end = index + count if count is not None else index
    if isinstance(end, int) and length is not None and end > length:
        raise ValueError(
            f"The cache is too short: positions up to {end} are written. Create it "
            f"with make_cache for a larger length. Received: a cache of length "
            f"{length}"
        )
    cache = tuple(
        _write(old, index, ops.cast(x, old.dtype), axis) for old, x in zip(cache, new, strict=True)
    )
    return tuple(ops.cast(old, x.dtype) for old, x in zip(cache, new, strict=True)), cache


def _write(whole, index, part, axis):
    if _KERNELS is not None and _KERNELS.graphs.in_graph_without_xla():
        return _KERNELS.graphs.write_in_place(whole, index, part, axis)
    start = [0] * len(whole.shape)
    start[axis] = index
    return ops.slice_update(whole, start, part)


def check_cache(cache, cache_index):
    """Raises a ValueError if only one of the two arguments is given."""
    if (cache is None) != (cache_index is None):
        given = "cache_index" if cache is None else "cache"
        raise ValueError(f"cache and cache_index must be given together. Received: only {given}")


def ignore_implicit_value_mask(args, kwargs):
    """Sets `value_mask=True` in the keyword arguments of a call with a cache and no value mask.

    Otherwise Keras would pass the implicit mask of the new values, whose length differs from the
    cache.

    Args:
        args: Positional arguments of the call: query, value, key, query_mask, value_mask, …
        kwargs: Keyword arguments of the call.
    """
    given = len(args) > 4 or kwargs.get("value_mask") is not None
    return kwargs if given or kwargs.get("cache") is None else {**kwargs, "value_mask": True}
