"""Scaled dot-product attention."""

import keras
from keras import ops

from keras_attn.ops import kernels
from keras_attn.ops.arguments import require_numbers, require_rates
from keras_attn.ops.dropout import dropout as drop
from keras_attn.ops.dropout import hash_key
from keras_attn.ops.masks import MASKED, as_mask, causal_mask, causal_offset, combine_masks
from keras_attn.ops.products import upcast_float16
from keras_attn.ops.weights import softmax
from keras_attn.types import Tensor

# From so many logits of a head on, no more than a block of them exists at a time; on JAX and
# PyTorch without second derivatives. Blocks one after the other suit a CPU, but leave an
# accelerator idle: there they pay where all logits take too much memory. PyTorch's own kernel is
# faster from 512 on.
BLOCKWISE_MIN_LOGITS = {"tensorflow": 4096**2, "jax": 4096**2, "torch": 512**2}

# Lengths and depths for which a kernel does all of a head at once, on JAX with a GPU: Triton's
# arrays have powers of two, and longer rows leave no room.
SHORT_SIZES = (16, 32, 64, 128)

_BACKEND = keras.config.backend()
_KERNELS = kernels.of_backend(*BLOCKWISE_MIN_LOGITS)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    causal: str | None = None,
    dropout: float = 0.0,
    seed: int | keras.random.SeedGenerator | None = None,
    query_mask: Tensor | None = None,
    return_scores: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Average of the values, weighted by how well their keys match the query.

    `softmax(scale * query @ key^T + bias) @ value`, the softmax in float32; the logits of
    float16 too. A query that may attend to no key gets weights 0 and output 0.

    Long inputs of static length are worked on in blocks, in memory that grows with T + S, if
    neither bias nor dropout nor scores are wanted; on PyTorch by its fused kernel. Gradients of
    gradients then exist on TensorFlow alone.

    Masked values have weight 0, which hides any finite value; but 0 times NaN
    or infinity is NaN, so inputs must be finite where they are masked, too.

    Args:
        query: `(..., T, K)`.
        key: `(..., S, K)`.
        value: `(..., S, V)`, finite.
        mask: Boolean or integer mask that broadcasts to `(..., T, S)`, True
            where a query may attend to a key.
        bias: Floats that broadcast to `(..., T, S)`, added to the logits.
        scale: Factor of the dot products; `1 / sqrt(K)` if None.
        causal: None; `"end"`: query i sees keys up to `i + S - T`;
            `"start"`: query i sees keys up to i.
        dropout: Share of weights set to 0 (the others grow by
            `1 / (1 - dropout)`). Leave it 0 at inference.
        seed: Integer or `keras.random.SeedGenerator` for dropout.
        query_mask: Boolean or integer mask that broadcasts to `(..., T)`;
            False queries get weights and output 0.
        return_scores: Also return the weights, as they were before dropout.

    Returns:
        `(..., T, V)` in the dtype of the query, or that and the weights
        `(..., T, S)`.

    Raises:
        ValueError: If a mask is float, `causal` is unknown, or `scale` or `dropout` is not a
            number.

    Reference:
        Vaswani et al., Attention Is All You Need, 2017, eq. 1.

    Examples:

    A query that matches the second key brings the second value; one that
    matches two keys brings the mean of their values.

    >>> key = np.array([[10, 0, 0], [0, 10, 0], [0, 0, 10], [0, 0, 10]], "float32")
    >>> value = np.array([[1, 0], [10, 0], [100, 5], [1000, 6]], "float32")
    >>> attend(np.array([[0, 10, 0]], "float32"), key, value)
    output [[10.  0.]]
    scores [[0. 1. 0. 0.]]
    >>> attend(np.array([[0, 0, 10]], "float32"), key, value)
    output [[550.    5.5]]
    scores [[0.  0.  0.5 0.5]]
    >>> attend(np.array([[10, 10, 0]], "float32"), key, value)
    output [[5.5 0. ]]
    scores [[0.5 0.5 0.  0. ]]
    >>> attend(np.array([[0, 0, 10], [0, 10, 0], [10, 10, 0]], "float32"), key, value)
    output [[550.    5.5]
     [ 10.    0. ]
     [  5.5   0. ]]
    scores [[0.  0.  0.5 0.5]
     [0.  1.  0.  0. ]
     [0.5 0.5 0.  0. ]]
    """
    require_rates(dropout=dropout)
    if not hasattr(scale, "dtype"):  # a tensor or a variable
        require_numbers(optional=True, scale=scale)
    query, key, value = (ops.convert_to_tensor(x) for x in (query, key, value))
    mask = as_mask(mask)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    query = query * ops.cast(scale, query.dtype)
    if not dropout and not return_scores and bias is None and _should_use_blocks(
            query, key, value, mask):
        output = _in_blocks(query, key, value, mask, causal)
        return output if query_mask is None else ops.where(
            _attending(None, query_mask), output, ops.zeros((), output.dtype))
    if causal is not None:
        lengths = ops.shape(query)[-2], ops.shape(key)[-2]
        mask = combine_masks(mask, causal_mask(*lengths, align=causal))
    attending = _attending(mask, query_mask)

    # (..., T, K) x (..., S, K) -> (..., T, S)
    logits = ops.matmul(*upcast_float16(query, ops.swapaxes(key, -1, -2)))
    logits = ops.cast(logits, "float32")
    if bias is not None:
        logits = logits + ops.cast(bias, "float32")
    if mask is not None:
        logits = ops.where(mask, logits, MASKED)
    weights = softmax(logits)
    dropped = drop(weights, dropout, seed) if dropout else weights
    # (..., T, S) x (..., S, V) -> (..., T, V)
    output = ops.matmul(ops.cast(dropped, value.dtype), value)
    if attending is not None:
        output = ops.where(attending, output, ops.zeros((), output.dtype))
    if not return_scores:
        return output
    if attending is not None:
        weights = ops.where(attending, weights, 0.0)
    return output, ops.cast(weights, query.dtype)


def short_self_attention(projected, bias=None, mask=None, dropout=0.0, seed=None):
    """Self-attention of short rows by a kernel of the backend, on JAX with a GPU.

    Args:
        projected: `(B, T, 3, H, K)`: queries, keys and values of every head.
        bias: `(3, H, K)`, added to them, or None.
        mask: Boolean, that broadcasts to `(B, H, T, T)`, or None.
        dropout: Share of weights set to 0.
        seed: Integer or `keras.random.SeedGenerator`.

    Returns:
        `(B, T, H, K)`, the same but for rounding as `scaled_dot_product_attention` gives.
    """
    from keras_attn.ops.kernels import jax_gpu  # takes Triton, so not elsewhere

    scale = projected.shape[-1] ** -0.5
    if bias is None:
        bias = ops.zeros(projected.shape[2:], projected.dtype)
    return jax_gpu.attend(
        projected, bias, mask, scale, dropout, hash_key(seed) if dropout else None)


def supports_short_kernel(shape, dtype, mask, dropout, seed):
    """Whether `short_self_attention` takes this shape, dtype and mask, and such dropout."""
    if _BACKEND != "jax" or not _KERNELS.has_short_kernel() or (dropout and seed is None):
        return False
    batch, length, _, _, depth = shape
    short = length in SHORT_SIZES and depth in SHORT_SIZES and dtype in ("bfloat16", "float16")
    return short and (mask is None or len(mask.shape) == 4 and all(
        size in sizes for size, sizes in zip(
            mask.shape, ((1, batch), (1,), (1, length), (length,)), strict=True)))


def _should_use_blocks(query, key, value, mask):
    shapes = [x.shape[-2:] for x in (query, key, value, mask) if x is not None]
    return (
        _KERNELS is not None
        # Unknown lengths are None or, on JAX, symbols that compare with no number.
        and all(isinstance(size, int) for shape in shapes for size in shape)
        and query.shape[-2] * key.shape[-2] >= BLOCKWISE_MIN_LOGITS[_BACKEND]
        and tuple(query.shape[:-2]) == tuple(key.shape[:-2]) == tuple(value.shape[:-2])
        and query.dtype == key.dtype == value.dtype
    )


def _in_blocks(query, key, value, mask, causal):
    if mask is not None and len(mask.shape) < 2:
        mask = mask[None]
    offset = None
    if causal is not None:
        offset = causal_offset(query.shape[-2], key.shape[-2], causal)
    return _KERNELS.attend_in_blocks(query, key, value, mask, offset)


def _attending(mask, query_mask):
    """Boolean `(..., T or 1, 1)`: which queries attend to anything; None if all do."""
    attending = None if mask is None else ops.any(mask, axis=-1, keepdims=True)
    if query_mask is not None:
        query_mask = ops.expand_dims(as_mask(query_mask, "query_mask"), -1)
        attending = combine_masks(attending, query_mask)
    return attending
