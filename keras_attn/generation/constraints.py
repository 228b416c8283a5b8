"""Constraints on decoded sequences, applied to the logits of the next token."""

from keras import ops

IMPOSSIBLE = -1e30


def constrain(logits, ids, index, *, end_id, min_length=0, no_repeat=0, prefix=None, prompt=None):
    """Masks the logits of tokens that must not come next with `IMPOSSIBLE` or less.

    Args:
        logits: float32 `(N, V)`.
        ids: Integers `(N, L + 1)`: the begin token, then the tokens so far, `index` of them.
        index: Integer scalar, the number of tokens so far.
        end_id: Id of the end-of-sequence token.
        min_length: Minimum number of tokens before the end-of-sequence token.
        no_repeat: Size of the n-grams that must not occur twice, including those in `prompt`. 0
            allows repetition.
        prefix: Integers `(N, P)`, forced first tokens, which take precedence over the other
            constraints; -1 allows any token. None: no prefix.
        prompt: Integers `(N, Q)`, the tokens before the decoded ones, including the begin token if
            it counts for `no_repeat`; left-padded with -1. None: no prompt.

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
        limited = limited + _repetition_penalty(known, count, no_repeat, size)
    if prefix is not None and prefix.shape[1]:
        length = prefix.shape[1]
        place = ops.minimum(index, length - 1)
        wanted = ops.where(index < length, ops.take(prefix, place, axis=1), -1)[:, None]
        forced = ops.where(vocabulary[None] == wanted, logits, IMPOSSIBLE)
        limited = ops.where(wanted < 0, limited, forced)
    return limited


def as_token_matrix(name, tokens, rows):
    """Converts a `prefix` or `prompt` to an int32 tensor; None stays None.

    Raises:
        ValueError: If it is not a matrix, or its number of rows is known and not `rows`.
    """
    if tokens is None:
        return None
    tokens = ops.cast(tokens, "int32")
    known = isinstance(rows, int) and tokens.shape and tokens.shape[0] is not None
    if len(tokens.shape) != 2 or (known and tokens.shape[0] != rows):
        raise ValueError(
            f"{name} must be of shape (B, P), with one row per decoded sequence. "
            f"Received: shape {tuple(tokens.shape)}, B={rows}"
        )
    return tokens


def _repetition_penalty(ids, index, size, vocabulary_size):
    """Returns `IMPOSSIBLE` or less for tokens that would repeat an n-gram, and 0 for others.

    Args:
        ids: Integers `(N, L)`, of which the first `index` are decoded; left-padded with -1.
        index: Integer scalar, the number of tokens so far.
        size: Size n of the n-grams.
        vocabulary_size: V.
    """
    rows, length = ops.shape(ids)[0], ids.shape[1]
    windows = length - size + 1
    if windows < 1:
        return ops.zeros((rows, vocabulary_size), "float32")
    starts = ops.arange(windows, dtype="int32")
    # Compare the last n - 1 tokens with the n - 1 tokens before each token.
    same = ops.broadcast_to(starts[None] + size <= index, (rows, windows))
    for k in range(size - 1):
        last = ops.take(ids, ops.maximum(index - size + 1 + k, 0), axis=1)
        same = ops.logical_and(same, ids[:, k : k + windows] == last[:, None])
    ends = ops.cast(ids[:, size - 1 :], "int32")
    same = ops.logical_and(same, ends >= 0)
    places = ops.stack(
        [
            ops.reshape(
                ops.broadcast_to(ops.arange(rows, dtype="int32")[:, None], (rows, windows)), (-1,)
            ),
            ops.reshape(ops.maximum(ends, 0), (-1,)),
        ],
        axis=1,
    )
    values = ops.reshape(ops.where(same, IMPOSSIBLE, 0.0), (-1,))
    return ops.scatter(places, values, (rows, vocabulary_size))
