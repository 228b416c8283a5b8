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

# From this number of logits per head, attention is computed block by block; on JAX and PyTorch
# without second derivatives. Sequential blocks suit a CPU but leave an accelerator idle, where they
# only pay off if the logits take too much memory. PyTorch's own kernel is faster from a length of
# 512.
BLOCKWISE_MIN_LOGITS = {"tensorflow": 4096**2, "jax": 4096**2, "torch": 512**2}

# Lengths and depths for which a kernel computes a whole head at once, on JAX with a GPU: sizes of
# Triton arrays are powers of two, and longer rows do not fit.
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
    """Scaled dot-product attention: average of the values, weighted by query-key similarity.

    `softmax(scale * query @ key^T + bias) @ value`. The softmax is in float32, and so are the
    logits of float16 inputs. A query without any visible key gets weights 0 and output 0.

    Long inputs of static length are processed in blocks, with memory that grows with T + S, unless
    bias, dropout or scores are requested; on PyTorch by its fused kernel. Second derivatives are
    then only available on TensorFlow.

    Masked values get weight 0, which hides any finite value; but 0 times NaN or infinity is NaN, so
    inputs must be finite at masked positions, too.

    Args:
        query: `(..., T, K)`.
        key: `(..., S, K)`.
        value: `(..., S, V)`, finite.
        mask: Boolean or integer mask that broadcasts to `(..., T, S)`, True where a query may
            attend to a key.
        bias: Floats that broadcast to `(..., T, S)`, added to the logits.
        scale: Factor of the dot products; defaults to `1 / sqrt(K)`.
        causal: None; `"end"`: query i sees keys up to `i + S - T`; `"start"`: query i sees keys up
            to i.
        dropout: Dropout rate of the weights (the others are multiplied by `1 / (1 - dropout)`).
            Must be 0 at inference.
        seed: Integer or `keras.random.SeedGenerator` for dropout.
        query_mask: Boolean or integer mask that broadcasts to `(..., T)`; masked queries get
            weights and output 0.
        return_scores: Whether to also return the attention weights, before dropout.

    Returns:
        `(..., T, V)` in the dtype of the query; with `return_scores` then the weights
        `(..., T, S)`.

    Raises:
        ValueError: If a mask is float, `causal` is unknown, `scale` is not a number, or `dropout`
            is not in [0, 1).

    Reference:
        Vaswani et al., Attention Is All You Need, 2017, eq. 1.

    Examples:

    A query that matches the second key returns the second value; a query that matches two keys
    returns the mean of their values.

    >>> import numpy as np
    >>> from keras import ops
    >>> from keras_attn.ops import scaled_dot_product_attention
    >>> key = np.array([[10, 0, 0], [0, 10, 0], [0, 0, 10], [0, 0, 10]], "float32")
    >>> value = np.array([[1, 0], [10, 0], [100, 5], [1000, 6]], "float32")
    >>> def attend(*query):
    ...     query = np.array(query, "float32")
    ...     results = scaled_dot_product_attention(query, key, value, return_scores=True)
    ...     for name, result in zip(("output", "scores"), results):
    ...         print(name, ops.convert_to_numpy(result).round(3) + 0.0)
    >>> attend([0, 10, 0])
    output [[10.  0.]]
    scores [[0. 1. 0. 0.]]
    >>> attend([0, 0, 10])
    output [[550.    5.5]]
    scores [[0.  0.  0.5 0.5]]
    >>> attend([10, 10, 0])
    output [[5.5 0. ]]
    scores [[0.5 0.5 0.  0. ]]
    >>> attend([0, 0, 10], [0, 10, 0], [10, 10, 0])
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
    if (
        not dropout
        and not return_scores
        and bias is None
        and _should_use_blocks(query, key, value, mask)
    ):
        output = _in_blocks(query, key, value, mask, causal)
        return (
            output
            if query_mask is None
            else ops.where(_attending(None, query_mask), output, ops.zeros((), output.dtype))
        )
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
    """Self-attention of short rows in a single kernel, on JAX with a GPU.

    Args:
        projected: `(B, T, 3, H, K)`: queries, keys and values of every head.
        bias: `(3, H, K)`, added to them, or None.
        mask: Boolean mask that broadcasts to `(B, H, T, T)`, or None.
        dropout: Dropout rate of the weights.
        seed: Integer or `keras.random.SeedGenerator`.

    Returns:
        `(B, T, H, K)`, equal to the result of `scaled_dot_product_attention` up to rounding.
    """
    from keras_attn.ops.kernels import jax_gpu  # imported here: requires Triton

    scale = projected.shape[-1] ** -0.5
    if bias is None:
        bias = ops.zeros(projected.shape[2:], projected.dtype)
    return jax_gpu.attend(
        projected, bias, mask, scale, dropout, hash_key(seed) if dropout else None
    )


def supports_short_kernel(shape, dtype, mask, dropout, seed):
    """Whether `short_self_attention` supports this shape, dtype, mask and dropout."""
    if _BACKEND != "jax" or not _KERNELS.has_short_kernel() or (dropout and seed is None):
        return False
    batch, length, _, _, depth = shape
    short = length in SHORT_SIZES and depth in SHORT_SIZES and dtype in ("bfloat16", "float16")
    return short and (
        mask is None
        or len(mask.shape) == 4
        and all(
            size in sizes
            for size, sizes in zip(
                mask.shape, ((1, batch), (1,), (1, length), (length,)), strict=True
            )
        )
    )


def _should_use_blocks(query, key, value, mask):
    shapes = [x.shape[-2:] for x in (query, key, value, mask) if x is not None]
    return (
        _KERNELS is not None
        # Unknown lengths are None or, on JAX, symbols that cannot be compared with numbers.
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
    """Boolean `(..., T or 1, 1)`: which queries attend to any key; None if all do."""
    attending = None if mask is None else ops.any(mask, axis=-1, keepdims=True)
    if query_mask is not None:
        query_mask = ops.expand_dims(as_mask(query_mask, "query_mask"), -1)
        attending = combine_masks(attending, query_mask)
    return attending
