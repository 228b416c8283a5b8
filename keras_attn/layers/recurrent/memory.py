"""What a recurrent decoder attends to, as its cells take it: a dictionary of
`value` `(B, S, V)`, `mask` `(B, S)` where there is padding, and `key` `(B, S, units)` where an
additive score has projected it, once for all steps.
"""

from keras import ops

from keras_attn.ops.masks import as_mask
from keras_attn.ops.sizes import at_least
from keras_attn.ops.weights import masked_softmax, weighted_average


def make_memory(value, mask=None, score=None, dtype=None):
    """The dictionary.

    Args:
        value: `(B, S, V)`.
        mask: Boolean or integer `(B, S)`, or None.
        score: `AdditiveScore`, or None.
        dtype: Of value and key.
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
        memory: Of `make_memory`, with that score.
        dropout, seed: See `weighted_average`.

    Returns:
        (context, weights): `(B, T, V)` and `(B, T, S)`.
    """
    mask = memory.get("mask")
    logits = score.from_projected(score.project_query(query), memory["key"])
    weights = masked_softmax(logits, None if mask is None else mask[:, None])
    context = weighted_average(weights, memory["value"], dropout, seed)
    return context, ops.cast(weights, context.dtype)


def group_by_source(function, query, memory):
    """Calls a function of queries that takes those of a source as one row.

    Args:
        function: Of `(B, R T, Q)`, to two of `(B, R T, ...)`.
        query: `(B R, T, Q)`: R targets of each source, side by side.
        memory: Of `make_memory`.

    Returns:
        Two of `(B R, T, ...)`.
    """
    shape = ops.shape(query)
    sources = ops.shape(memory["value"])[0]
    # Not -1, which may be any number where there is no source.
    queries = shape[0] * shape[1] // at_least(sources, 1)
    grouped = ops.reshape(query, (sources, queries, query.shape[-1]))
    context, weights = function(grouped)
    return (ops.reshape(context, (*shape[:2], context.shape[-1])),
            ops.reshape(weights, (*shape[:2], ops.shape(weights)[-1])))
