"""The largest logits of a vocabulary."""

from keras import ops

_BLOCK = 128


def likeliest(logits, number):
    """`keras.ops.top_k`, faster where there are thousands of tokens.

    Those sought are in the `number` blocks of tokens that have the largest maxima.

    Args:
        logits: float32 `(N, V)`.
        number: K, at most V.

    Returns:
        (logits, tokens): `(N, K)` each, the largest first.
    """
    size = logits.shape[-1]
    blocks = size // _BLOCK
    if blocks < 4 * number:
        values, tokens = ops.top_k(logits, number)
        return values, ops.cast(tokens, "int32")
    maxima = ops.max(ops.reshape(logits[:, :blocks * _BLOCK], (-1, blocks, _BLOCK)), axis=-1)
    chosen = ops.sort(ops.cast(ops.top_k(maxima, number)[1], "int32"), axis=-1)
    tokens = ops.reshape(chosen[..., None] * _BLOCK + ops.arange(_BLOCK, dtype="int32"),
                         (-1, number * _BLOCK))
    rest = ops.arange(blocks * _BLOCK, size, dtype="int32")[None]
    tokens = ops.concatenate(
        [tokens, ops.broadcast_to(rest, (ops.shape(tokens)[0], size - blocks * _BLOCK))], axis=1)
    values, places = ops.top_k(ops.take_along_axis(logits, tokens, axis=1), number)
    return values, ops.take_along_axis(tokens, ops.cast(places, "int32"), axis=1)
