"""The memory of a recurrent decoder, as its cells receive it.

A dictionary of `value` `(B, S, V)`, `mask` `(B, S)` if there is padding, and what is projected once
for all steps: `key` `(B, S, units)` by an additive score, or `heads` by a layer with
`project_memory`.
"""

import keras
from keras import ops

from keras_attn.ops.masks import as_mask
from keras_attn.ops.sizes import at_least
from keras_attn.ops.weights import masked_softmax, weighted_average


def make_memory(value, mask=None, score=None, dtype=None):
    """Creates the memory dictionary.

    Args:
        value: `(B, S, V)`.
        mask: Boolean or integer `(B, S)`, or None.
        score: `AdditiveScore`, or None.
        dtype: Dtype of value and key.
    """
    prepared = {"value": ops.cast(value, dtype)}
    if mask is not None:
        prepared["mask"] = as_mask(mask, "memory_mask")
    if score is not None:
        prepared["key"] = ops.cast(score.project_key(prepared["value"]), dtype)
    return prepared


def attend_to_memory(score, query, memory, dropout=0.0, seed=None):
    """Attention with an additive score.

    Args:
        score: `AdditiveScore`.
        query: `(B, T, Q)`.
        memory: As returned by `make_memory` with that score.
        dropout: See `weighted_average`.
        seed: See `weighted_average`.

    Returns:
        (context, weights): `(B, T, V)` and `(B, T, S)`.
    """
    mask = memory.get("mask")
    logits = score.from_projected(score.project_query(query), memory["key"])
    weights = masked_softmax(logits, None if mask is None else mask[:, None])
    context = weighted_average(weights, memory["value"], dropout, seed)
    return context, ops.cast(weights, context.dtype)


def group_by_source(function, query, memory):
    """Calls an attention function with the queries of all targets of a source in one row.

    Args:
        function: Maps `(B, R T, Q)` to a nest of tensors `(B, R T, ...)`.
        query: `(B R, T, Q)`: R consecutive targets of each source.
        memory: As returned by `make_memory`.

    Returns:
        The nest, of tensors `(B R, T, ...)`.
    """
    shape = ops.shape(query)
    sources = ops.shape(memory["value"])[0]
    # Not -1, which is ambiguous if there is no source.
    queries = shape[0] * shape[1] // at_least(sources, 1)
    grouped = ops.reshape(query, (sources, queries, query.shape[-1]))
    return keras.tree.map_structure(
        lambda x: ops.reshape(x, (*shape[:2], *ops.shape(x)[2:])), function(grouped)
    )
