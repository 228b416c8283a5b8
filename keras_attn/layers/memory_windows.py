"""Calls of window layers with a memory, or with windows at other positions than the query's."""

from keras import ops

from keras_attn.layers.alignment import unmasked_positions
from keras_attn.layers.cache import check_cache
from keras_attn.layers.heads import head_mask
from keras_attn.ops.masks import as_mask, causal_mask, combine_masks
from keras_attn.ops.products import upcast_float16


def build_heads(heads, layer, query_shape, value_shape, key_shape):
    """Builds `Heads`, which share a kernel where the inputs have the same depth."""
    value_shape = query_shape if value_shape is None else value_shape
    key_shape = value_shape if key_shape is None else key_shape
    if key_shape[-1] != value_shape[-1]:
        heads.fused = None
    elif value_shape[-1] != query_shape[-1]:
        heads.fused = "kv"
    heads.build(layer, query_shape, value_shape, key_shape)


def self_attention_arguments(query, value, key):
    """Value and key of a call: None for self-attention, also if they are the query itself."""
    # Keras would convert them to different tensor objects.
    if all(x is None or x is query for x in (value, key)):
        return None, None
    return value, key


def check_call(layer, value, key, memory, cache, cache_index, query_positions):
    """Raises a ValueError for call arguments that exclude each other."""
    name = type(layer).__name__
    if key is not None and value is None:
        raise ValueError(f"{name}: key requires value. Received: key without value")
    if memory is not None and any(x is not None for x in (value, cache)):
        raise ValueError(
            f"{name}: memory cannot be combined with value, key or cache. Received: "
            f"memory and {'cache' if value is None else 'value'}"
        )
    if memory is None:
        check_cache(cache, cache_index)
    if cache is None:
        return
    if value is not None or query_positions is not None or layer.alignment == "predictive":
        raise ValueError(
            f'{name}: a cache requires self-attention with alignment="monotonic", without '
            f"query_positions. Received: a cache, alignment={layer.alignment!r}"
            f"{', a value' * (value is not None)}"
            f"{', query_positions' * (query_positions is not None)}"
        )


def project_memory(heads, value, key, dtype):
    """Key and value heads `(B, H, S, K)` of a memory."""
    found = heads.project(key=value if key is None else key, value=value)
    # Keras only casts weights inside a call.
    return tuple(ops.cast(found[name], dtype) for name in ("key", "value"))


def project_inputs(heads, query, value, key, memory):
    """Query, key and value heads of a call; keys and values are those of the memory if given."""
    if memory is not None:
        return heads.project(query=query)["query"], *memory
    value = query if value is None else value
    found = heads.project(query=query, key=value if key is None else key, value=value)
    return found["query"], found["key"], found["value"]


def scaled_logits(query, key):
    """`Q K^T / sqrt(K)` of all heads, `(B, H, T, S)`; float16 becomes float32."""
    scale = ops.cast(query.shape[-1] ** -0.5, key.dtype)
    return ops.matmul(*upcast_float16(query * scale, ops.swapaxes(key, -1, -2)))


def joint_head_mask(length, query_mask, value_mask, attention_mask, causal):
    """Combines the masks of a call.

    Args:
        length: Pair of the numbers of queries T and of keys S.
        query_mask: As in the call, like the next two.
        value_mask: Includes a default.
        attention_mask: As in the call.
        causal: Whether to mask the keys after each query, aligned at the end.

    Returns:
        Boolean mask that broadcasts to `(B, H, T, S)`, or None.
    """
    mask = head_mask(as_mask(attention_mask, "attention_mask"))
    if value_mask is not None:
        mask = combine_masks(mask, as_mask(value_mask, "value_mask")[:, None, None, :])
    if query_mask is not None:
        mask = combine_masks(mask, as_mask(query_mask, "query_mask")[:, None, :, None])
    return combine_masks(mask, causal_mask(*length) if causal else None)


def distances(alignment, query, length, query_mask, value_mask, query_positions):
    """Distances of the keys from the center of each query's window.

    Args:
        alignment: `Alignment` that is built.
        query: `(B, T, Q)`.
        length: Number of keys S.
        query_mask: As in the call.
        value_mask: As in the call.
        query_positions: As in the call.

    Returns:
        (steps, weights, places): distances from the integer part of p, integers in float32
        `(B or 1, 1, T, S)`; the Gaussian around p, of the same shape, or None for monotonic
        alignment; and the positions of the keys, `(B or 1, 1, 1, S)`.
    """
    places, last = unmasked_positions(length, value_mask)
    centers = alignment.centers(query, last, query_mask, query_positions)
    steps = (places - ops.floor(centers))[:, None]
    if not alignment.predictive:
        return steps, None, places[:, None]
    return steps, ops.exp(alignment.exponent(places - centers))[:, None], places[:, None]
