"""What a decoded sequence must and must not hold: logits of the next token changed."""

from keras import ops

IMPOSSIBLE = -1e30


def constrain(logits, ids, index, *, end_id, min_length=0, no_repeat=0, prefix=None):
    """Logits of the next token, `IMPOSSIBLE` or less where it may not follow.

    Args:
        logits: float32 `(N, V)`.
        ids: Integers `(N, L + 1)`: the begin mark, then the tokens so far, `index` of them.
        index: Integer scalar.
        end_id: Of the end mark.
        min_length: Tokens before the end mark at least.
        no_repeat: No sequence of so many tokens may come twice; 0: any may.
        prefix: Integers `(N, P)`, the tokens to begin with, whatever the other limits; -1 where
            any may stand. None: any.

    Returns:
        float32 `(N, V)`.
    """
    size = logits.shape[-1]
    vocabulary, limited = ops.arange(size, dtype="int32"), logits
    if min_length:
        early = ops.logical_and(vocabulary == end_id, index < min_length)
        limited = ops.where(early[None], IMPOSSIBLE, limited)
    if no_repeat:
        limited = limited + _repeated(ids[:, 1:], index, no_repeat, size)
    if prefix is not None and prefix.shape[1]:
        length = prefix.shape[1]
        place = ops.minimum(index, length - 1)
        wanted = ops.where(index < length, ops.take(prefix, place, axis=1), -1)[:, None]
        forced = ops.where(vocabulary[None] == wanted, logits, IMPOSSIBLE)
        limited = ops.where(wanted < 0, limited, forced)
    return limited


def read_prefix(prefix, rows):
    """The prefix as a tensor; None stays so.

    Raises:
        ValueError: If it has not the rows, where they are known, or another shape.
    """
    if prefix is None:
        return None
    prefix = ops.cast(prefix, "int32")
    known = isinstance(rows, int) and prefix.shape and prefix.shape[0] is not None
    if len(prefix.shape) != 2 or (known and prefix.shape[0] != rows):
        raise ValueError("prefix must be (B, P), a row for each that is decoded. "
                         f"Received: {tuple(prefix.shape)} for {rows} rows")
    return prefix


def _repeated(ids, index, size, vocabulary_size):
    """`IMPOSSIBLE` or less for each token that would end a sequence of `size` that is there."""
    rows, length = ops.shape(ids)[0], ids.shape[1]
    windows = length - size + 1
    if windows < 1:
        return ops.zeros((rows, vocabulary_size), "float32")
    starts = ops.arange(windows, dtype="int32")
    # The last size - 1 tokens, and those before each token.
    same = ops.broadcast_to(starts[None] + size <= index, (rows, windows))
    for k in range(size - 1):
        last = ops.take(ids, ops.maximum(index - size + 1 + k, 0), axis=1)
        same = ops.logical_and(same, ids[:, k:k + windows] == last[:, None])
    places = ops.stack([
        ops.reshape(ops.broadcast_to(ops.arange(rows, dtype="int32")[:, None], (rows, windows)),
                    (-1,)),
        ops.reshape(ops.cast(ids[:, size - 1:], "int32"), (-1,)),
    ], axis=1)
    values = ops.reshape(ops.where(same, IMPOSSIBLE, 0.0), (-1,))
    return ops.scatter(places, values, (rows, vocabulary_size))
