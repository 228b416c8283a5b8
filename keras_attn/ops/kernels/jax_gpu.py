"""Self-attention of short rows on a GPU, on JAX: one kernel computes a whole head.

A row of 128 tokens fits into a multiprocessor, so its logits, weights and dropout mask are never
written to memory. The gradient recomputes them from queries, keys and values, which are read in the
layout of the projection, before its bias is added.
"""

import functools

import jax
from jax import lax
from jax import numpy as jnp
from jax.experimental import pallas
from jax.experimental.pallas import triton

from keras_attn.ops.kernels.jax import hash_words, keep_mask
from keras_attn.ops.masks import MASKED

# On an H100, 4 and 16 warps are up to 20 times slower with dropout.
_PARAMS = triton.CompilerParams(num_warps=8, num_stages=1)


def attend(projected, bias, mask, scale, rate, key):
    """`dropout(softmax(scale * query @ key^T)) @ value` of every head.

    Args:
        projected: `(B, T, 3, H, K)`: queries, keys, values; in half precision.
        bias: `(3, H, K)`, added to them.
        mask: Boolean `(B or 1, 1, T or 1, T)`, True where a query may attend to a key, or None.
        scale: Scale of the logits.
        rate: Dropout rate of the weights, with the mask of `dropout` for `(B, H, T, T)`.
        key: Two 32-bit integers, the key of dropout.

    Returns:
        `(B, T, H, K)`; 0 for a query that sees no key.
    """
    if mask is not None:
        mask = mask[:, 0].astype("int8")
    words = jnp.stack(hash_words(key)) if rate else jnp.zeros(2, "uint32")
    return _attend(projected, bias, mask, words, scale, rate, jax.default_backend() != "gpu")


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5, 6))
def _attend(projected, bias, mask, words, scale, rate, interpret):
    batch, length, _, heads, depth = projected.shape
    return pallas.pallas_call(
        functools.partial(_forward_kernel, scale=scale, rate=rate),
        grid=(batch, heads),
        in_specs=_input_specs(projected.shape, mask),
        out_specs=pallas.BlockSpec((None, length, None, depth), lambda b, h: (b, 0, h, 0)),
        out_shape=jax.ShapeDtypeStruct((batch, length, heads, depth), projected.dtype),
        compiler_params=_PARAMS,
        interpret=interpret,
        name="attend",
    )(words, bias, projected, projected, projected, *_given(mask))


def _forward(projected, bias, mask, words, scale, rate, interpret):
    output = _attend(projected, bias, mask, words, scale, rate, interpret)
    return output, (projected, bias, mask, words)


def _backward(scale, rate, interpret, kept, gradient):
    projected, bias, mask, words = kept
    batch, length, _, heads, depth = projected.shape
    found = pallas.pallas_call(
        functools.partial(_backward_kernel, scale=scale, rate=rate),
        grid=(batch, heads),
        in_specs=[
            pallas.BlockSpec((None, length, None, depth), lambda b, h: (b, 0, h, 0)),
            *_input_specs(projected.shape, mask),
        ],
        out_specs=pallas.BlockSpec((None, length, 3, None, depth), lambda b, h: (b, 0, 0, h, 0)),
        out_shape=jax.ShapeDtypeStruct(projected.shape, projected.dtype),
        compiler_params=_PARAMS,
        interpret=interpret,
        name="attend_gradient",
    )(gradient, words, bias, projected, projected, projected, *_given(mask))
    of_bias = jnp.sum(found, axis=(0, 1), dtype="float32").astype(bias.dtype)
    return found, of_bias, None, None


_attend.defvjp(_forward, _backward)


def _given(mask):
    return () if mask is None else (mask,)


def _input_specs(shape, mask):
    """Specs of the words, the biases, of queries, keys and values, and of the mask."""
    _, length, _, _, depth = shape
    specs = [
        pallas.BlockSpec((2,), lambda b, h: (0,)),
        pallas.BlockSpec((3, None, depth), lambda b, h: (0, h, 0)),
    ]
    specs += [
        pallas.BlockSpec(
            (None, length, None, None, depth), functools.partial(lambda i, b, h: (b, 0, i, h, 0), i)
        )
        for i in range(3)
    ]
    if mask is not None:
        rows, queries = mask.shape[:2]
        specs.append(
            pallas.BlockSpec((None, queries, length), lambda b, h: (b if rows > 1 else 0, 0, 0))
        )
    return specs


def _forward_kernel(words, bias, query, key, value, *rest, scale, rate):
    *mask, output = rest
    query, key, value = (x[...] + bias[i] for i, x in enumerate((query, key, value)))
    _, dropped, _ = _weights(words, query, key, mask, scale, rate)
    output[...] = triton.dot(dropped.astype(value.dtype), value).astype(output.dtype)


def _backward_kernel(gradient, words, bias, query, key, value, *rest, scale, rate):
    *mask, output = rest
    gradient = gradient[...]
    query, key, value = (x[...] + bias[i] for i, x in enumerate((query, key, value)))
    weights, dropped, kept = _weights(words, query, key, mask, scale, rate)
    of_value = triton.dot(dropped.astype(gradient.dtype), gradient, trans_a=True)
    change = triton.dot(gradient, value, trans_b=True)
    if rate:
        change = jnp.where(kept, change / (1.0 - rate), 0.0)
    change = weights * (change - jnp.sum(weights * change, axis=1, keepdims=True))
    change = (change * scale).astype(query.dtype)
    output[:, 0] = triton.dot(change, key).astype(output.dtype)
    output[:, 1] = triton.dot(change, query, trans_a=True).astype(output.dtype)
    output[:, 2] = of_value.astype(output.dtype)


def _weights(words, query, key, mask, scale, rate):
    """float32 weights `(T, T)`, the weights after dropout, and the dropout mask."""
    length = query.shape[0]
    logits = triton.dot(query, key, trans_b=True) * scale
    seen = None
    if mask:
        seen = jnp.broadcast_to(mask[0][...] != 0, logits.shape)
        logits = jnp.where(seen, logits, MASKED)
    weights = jnp.exp(logits - jnp.max(logits, axis=1, keepdims=True))
    if mask:
        weights = jnp.where(seen, weights, 0.0)
    total = jnp.sum(weights, axis=1, keepdims=True)
    weights = weights / jnp.where(total > 0, total, 1.0)
    if not rate:
        return weights, weights, None
    row = pallas.program_id(0) * pallas.num_programs(1) + pallas.program_id(1)
    first = row.astype("uint32") * jnp.uint32(length * length)
    number = (
        first
        + lax.broadcasted_iota("uint32", logits.shape, 0) * jnp.uint32(length)
        + lax.broadcasted_iota("uint32", logits.shape, 1)
    )
    kept = keep_mask(number, (words[0], words[1]), rate)
    return weights, jnp.where(kept, weights / (1.0 - rate), 0.0), kept
