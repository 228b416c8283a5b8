"""Keys and values of earlier positions, for decoding a token at a time."""

from keras import ops

from keras_attn.layers.shapes import shape_text, sizes_differ
from keras_attn.ops import kernels

_KERNELS = kernels.of_backend("tensorflow")


def write_cache(cache, index, new, axis):
    """Writes new keys and values at their place.

    Args:
        cache: Tuple of tensors, such as keys and values.
        index: Integer scalar, the position of the first new one.
        new: Tuple of tensors of the same shapes but for `axis`.
        axis: Of the positions.

    Returns:
        The tensors with the new ones in the dtype of these, and the new cache.

    Raises:
        ValueError: If the cache is too short or of another shape, as far as that is known.
    """
    for old, x in zip(cache, new, strict=True):
        expected = [*x.shape[:axis], old.shape[axis], *x.shape[axis + 1:]]
        if any(map(sizes_differ, old.shape, expected)):
            raise ValueError(f"cache must hold tensors of shape {shape_text(expected)} here. "
                             f"Received: a cache with one of shape {shape_text(old.shape)}")
    count, length = new[0].shape[axis], cache[0].shape[axis]
    end = index + count if count is not None else index
    if isinstance(end, int) and length is not None and end > length:
        raise ValueError(f"cache must hold the positions up to {end}. "
                         f"Received: a cache of length {length}")
    cache = tuple(_write(old, index, ops.cast(x, old.dtype), axis)
                  for old, x in zip(cache, new, strict=True))
    return tuple(ops.cast(old, x.dtype) for old, x in zip(cache, new, strict=True)), cache


def _write(whole, index, part, axis):
    if _KERNELS is not None and _KERNELS.graphs.can_write_in_place():
        return _KERNELS.graphs.write_in_place(whole, index, part, axis)
    start = [0] * len(whole.shape)
    start[axis] = index
    return ops.slice_update(whole, start, part)


def check_cache(cache, cache_index):
    """Raises a ValueError if one of both is missing."""
    if (cache is None) != (cache_index is None):
        given = "cache_index" if cache is None else "cache"
        raise ValueError(f"cache and cache_index go together. Received: {given} alone")


def ignore_implicit_value_mask(args, kwargs):
    """The keyword arguments of a call; with a cache and no `value_mask`, that is True.

    Else Keras would pass the mask of the new values, of another length than the cache.

    Args:
        args, kwargs: Of a call whose first arguments are query, value, key, query_mask, value_mask.
    """
    given = len(args) > 4 or kwargs.get("value_mask") is not None
    return kwargs if given or kwargs.get("cache") is None else {**kwargs, "value_mask": True}
