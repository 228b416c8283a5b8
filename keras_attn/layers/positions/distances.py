"""Distances of queries and keys."""

from keras import ops


def distances(query, key=None, offset=0):
    """How far each key lies before each query: `offset + i - j`.

    Args:
        query: `(..., T, D)`.
        key: `(..., S, D)`; defaults to `query`.
        offset: Integer scalar, the position of the first query among the keys.

    Returns:
        int32 `(T, S)`.
    """
    key = query if key is None else key
    queries = ops.arange(ops.shape(query)[-2], dtype="int32") + ops.cast(offset, "int32")
    return queries[:, None] - ops.arange(ops.shape(key)[-2], dtype="int32")
