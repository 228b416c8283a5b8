"""Replacement of masked tokens by samples of a generator."""

from keras import ops


def gumbel_noise(uniform):
    """Returns standard Gumbel noise, `-log(-log(u))`; -inf for 0.

    Args:
        uniform: Uniform random numbers in [0, 1), float32.
    """
    return -ops.log(-ops.log(uniform))


def sample_tokens(logits, noise, temperature=1.0):
    """Samples from `softmax(logits / temperature)` by the maximum of logits with Gumbel noise.

    Args:
        logits: `(R, V)`.
        noise: Gumbel noise, of the same shape.
        temperature: Positive number.

    Returns:
        int32 `(R,)`.

    Reference:
        Gumbel, Statistical Theory of Extreme Values, 1954; Maddison et al., A* Sampling, 2014.
    """
    return ops.cast(ops.argmax(logits / temperature + noise, axis=-1), "int32")


def put_tokens(token_ids, positions, tokens, used):
    """Writes tokens at positions of each row.

    Args:
        token_ids: Integers `(B, T)`.
        positions: Integers `(B, P)`, distinct in a row where they are used.
        tokens: Integers `(B, P)`.
        used: Booleans `(B, P)`; the other slots write nothing.

    Returns:
        int32 `(B, T)`.
    """
    batch, length = ops.shape(token_ids)
    starts = ops.expand_dims(ops.arange(batch, dtype="int32") * length, 1)
    # Unused slots write behind the last row.
    places = ops.where(used, ops.cast(positions, "int32") + starts, batch * length)
    flat = ops.append(ops.reshape(ops.cast(token_ids, "int32"), (-1,)), ops.zeros((1,), "int32"))
    written = ops.scatter_update(
        flat, ops.reshape(places, (-1, 1)), ops.reshape(ops.cast(tokens, "int32"), (-1,))
    )
    return ops.reshape(written[:-1], (batch, length))


def row_shifts(token_ids, padding_mask, positions, vocabulary_size):
    """Returns a pseudorandom number in [0, V) for each masked position, a function of its row.

    Args:
        token_ids: Integers `(B, T)`.
        padding_mask: Integers `(B, T)`, or None.
        positions: Integers `(B, P)`.
        vocabulary_size: V.

    Returns:
        int32 `(B, P)`.
    """
    ids = ops.cast(token_ids, "int32")
    if padding_mask is not None:
        ids = ids * ops.cast(padding_mask, "int32")
    # Bounded, so that no product exceeds 31 bits.
    factors = ops.arange(1, ops.shape(ids)[1] + 1, dtype="int32") % 1009
    rows = ops.sum(ids * factors % vocabulary_size, axis=1, keepdims=True)
    return ops.cast((rows + ops.cast(positions, "int32") * 7919) % vocabulary_size, "int32")
