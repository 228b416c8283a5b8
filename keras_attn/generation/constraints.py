"""What a decoded sequence must and must not hold: logits of the next token changed."""

from keras import ops

IMPOSSIBLE = -1e30


def constrain(logits, ids, index, *, end_id, min_length=0, no_repeat=0, prefix=None,
              prompt=None):
    """Logits of the next token, `IMPOSSIBLE` or less where it may not follow.

    Args:
        logits: float32 `(N, V)`.
        ids: Integers `(N, L + 1)`: the begin mark, then the tokens so far, `index` of them.
        index: Integer scalar.
        end_id: Of the end mark.
        min_length: Tokens before the end mark at least.
        no_repeat: No sequence of so many tokens may come twice, those of `prompt` counted; 0: any
            may.
        prefix: Integers `(N, P)`, the tokens to begin with, whatever the other limits; -1 where
            any may stand. None: any.
        prompt: Integers `(N, Q)`, what stands before the tokens, the begin mark with it if that
            counts; -1 for padding, before all else. None: nothing.

    Returns:
        float32 `(N, V)`.
    """
    size = logits.shape[-1]
    vocabulary, limited = ops.arange(size, dtype="int32"), logits
    if min_length:
        early = ops.logical_and(vocabulary == end_id, index < min_length)
        limited = ops.where(early[None], IMPOSSIBLE, limited)
    if no_repeat:
        known, count = ids[:, 1:], index
        if prompt is not None:
            known, count = ops.concatenate([prompt, known], axis=1), index + prompt.shape[1]
        limited = limited + _repeated(known, count, no_repeat, size)
    if prefix is not None and prefix.shape[1]:
        length = prefix.shape[1]
        place = ops.minimum(index, length - 1)
        wanted = ops.where(index < length, ops.take(prefix, place, axis=1), -1)[:, None]
        forced = ops.where(vocabulary[None] == wanted, logits, IMPOSSIBLE)
        limited = ops.where(wanted < 0, limited, forced)
    return limited


def read_tokens(name, tokens, rows):
    """A `prefix` or `prompt` as a tensor; None stays so.

    Raises:
        ValueError: If it has not the rows, where they are known, or another shape.
    """
    if tokens is None:
        return None
    tokens = ops.cast(tokens, "int32")
    known = isinstance(rows, int) and tokens.shape and tokens.shape[0] is not None
    if len(tokens.shape) != 2 or (known and tokens.shape[0] != rows):
        raise ValueError(f"{name} must be (B, P), a row for each that is decoded. "
                         f"Received: {tuple(tokens.shape)}, B={rows}")
    return tokens


def _repeated(ids, index, size, vocabulary_size):
    """`IMPOSSIBLE` or less for each token that would end a sequence of `size` that is there.

    Args:
        ids: Integers `(N, L)`, `index` of them there; -1 for padding before all else.
        index: Integer scalar.
        size: Tokens of a sequence.
        vocabulary_size: V.
    """
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
    ends = ops.cast(ids[:, size - 1:], "int32")
    same = ops.logical_and(same, ends >= 0)
    places = ops.stack([
        ops.reshape(ops.broadcast_to(ops.arange(rows, dtype="int32")[:, None], (rows, windows)),
                    (-1,)),
        ops.reshape(ops.maximum(ends, 0), (-1,)),
    ], axis=1)
    values = ops.reshape(ops.where(same, IMPOSSIBLE, 0.0), (-1,))
    return ops.scatter(places, values, (rows, vocabulary_size))
