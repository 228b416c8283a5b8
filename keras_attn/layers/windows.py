"""Windowed self-attention with all call options of the layers."""

from keras import ops

from keras_attn.layers.cache import check_cache, write_cache
from keras_attn.layers.heads import head_mask
from keras_attn.layers.positions.rotary_embedding import rotate
from keras_attn.ops.attention import scaled_dot_product_attention
from keras_attn.ops.masks import as_mask, causal_mask, combine_masks, pack_mask
from keras_attn.ops.windows import window_mask, windowed_attention


def attend_in_window(
    heads,
    query,
    window,
    query_mask,
    value_mask,
    attention_mask,
    return_scores,
    cache,
    cache_index,
    dropout,
    seed,
    global_heads=None,
    position=None,
    position_ids=None,
    pack_ids=None,
):
    """Windowed self-attention of all heads.

    It works block by block, or with a dense mask if attention weights, an attention mask or a cache
    are requested.

    Args:
        heads: `Heads` that are built.
        query: `(B, T, D)`.
        window: Arguments of `windowed_attention` and `window_mask`.
        query_mask: As in the call, like all arguments up to `cache_index`.
        dropout: Dropout rate of the weights.
        seed: Seed generator of dropout.
        global_heads: See `windowed_attention`.
        position: None, or a `RotaryEmbedding`.
        position_ids: See `MultiHeadAttention`.
        pack_ids: See `windowed_attention`.

    Returns:
        List of the output, the weights if requested, and the cache if one was given.
    """
    check_cache(cache, cache_index)
    projected = heads.project(query=query, key=query, value=query)
    for name in ("query", "key"):
        projected[name] = rotate(position, projected[name], cache_index, position_ids)
    projected = [projected[name] for name in ("query", "key", "value")]
    if value_mask is None and cache is None:  # the query mask only covers new positions
        value_mask = query_mask
    if attention_mask is None and not return_scores and cache is None:
        output = windowed_attention(
            *projected,
            mask=value_mask,
            dropout=dropout,
            dropout_seed=seed,
            global_heads=global_heads,
            pack_ids=pack_ids,
            **window,
        )
        return [heads.output(_zero_masked_queries(output, query_mask))]
    if cache is not None:
        projected[1:], cache = write_cache(cache, cache_index, projected[1:], axis=2)
    mask = _dense_mask(projected, window, cache_index)
    mask = combine_masks(mask, head_mask(as_mask(attention_mask, "attention_mask")))
    if pack_ids is not None:
        mask = combine_masks(mask, pack_mask(pack_ids)[:, None])
    if value_mask is not None:
        mask = combine_masks(mask, as_mask(value_mask, "value_mask")[:, None, None, :])
    if query_mask is not None:
        query_mask = as_mask(query_mask, "query_mask")[:, None, :]
    found, weights = scaled_dot_product_attention(
        *projected, mask=mask, dropout=dropout, seed=seed, query_mask=query_mask, return_scores=True
    )
    if global_heads is not None:
        found, weights = _replace_global_rows(
            found, weights, window["global_tokens"], global_heads, mask, query_mask, dropout, seed
        )
    results = [heads.output(found)]
    results += [weights] if return_scores else []
    return results if cache is None else [*results, cache]


def _dense_mask(projected, window, cache_index):
    query, key, _ = projected
    length, seen = ops.shape(query)[2], ops.shape(key)[2]
    if cache_index is None:
        return window_mask(seen, **window)
    rows = ops.convert_to_tensor(cache_index, "int32") + ops.arange(length, dtype="int32")
    visible = causal_mask(length, seen, align="start", offset=cache_index)
    return combine_masks(window_mask(seen, rows=rows, **window), visible)


def _replace_global_rows(
    found, weights, global_tokens, global_heads, mask, query_mask, dropout, seed
):
    """Replaces the rows of the global tokens by attention with their own projections."""
    query, key, value = global_heads
    rows = {"query": query[:, :, :global_tokens], "query_mask": query_mask, "mask": mask}
    if query_mask is not None:
        rows["query_mask"] = query_mask[..., :global_tokens]
    if mask.shape[-2] != 1:
        rows["mask"] = mask[..., :global_tokens, :]
    head, head_weights = scaled_dot_product_attention(
        key=key, value=value, dropout=dropout, seed=seed, return_scores=True, **rows
    )
    return (
        ops.concatenate([head, found[:, :, global_tokens:]], axis=2),
        ops.concatenate([head_weights, weights[:, :, global_tokens:]], axis=2),
    )


def _zero_masked_queries(output, query_mask):
    """Sets the output of masked queries to 0."""
    if query_mask is None:
        return output
    query_mask = as_mask(query_mask, "query_mask")[:, None, :, None]
    return ops.where(query_mask, output, ops.zeros((), output.dtype))
