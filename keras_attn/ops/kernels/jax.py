"""Memory-efficient attention and cross-entropy, and dropout, on JAX.

Attention memory grows with the length, not with its square: Rabe & Staats, Self-attention Does Not
Need O(n^2) Memory, 2021. The gradient is as in Dao et al., FlashAttention, 2022, algorithm 4:
logits are recomputed block by block from the logarithm of their sum of exponentials.
"""

import functools

import jax
from jax import lax
from jax import numpy as jnp

from keras_attn.ops.block_losses import block_count, block_gradient, block_statistics
from keras_attn.ops.kernels.jax_inference import inference_function as inference_function
from keras_attn.ops.masks import MASKED

# Queries and keys per block. With 8 heads the logits of a block take 4 MB.
QUERIES, KEYS = 256, 512


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def attend_in_blocks(query, key, value, mask=None, causal_offset=None):
    """`softmax(query @ key^T) @ value`, with at most one block of weights in memory at a time.

    Args:
        query: `(..., T, K)`, already scaled.
        key: `(..., S, K)`.
        value: `(..., S, V)`.
        mask: Boolean `(..., T or 1, S or 1)`, True where a query may attend to a key, or None.
        causal_offset: Integer: query i sees keys up to i plus this offset; None: all keys.

    Returns:
        `(..., T, V)`; 0 for a query that sees no key.
    """
    return _forward(query, key, value, mask, causal_offset)[0]


# Compiled: otherwise every call outside of jit would compile the loops again.
@functools.partial(jax.jit, static_argnums=4)
def _forward(query, key, value, mask, offset):
    """The output, and the residuals for the gradient."""
    blocks = _Blocks(query.shape[-2], key.shape[-2], mask, offset)
    output, sums = blocks.forward(query, key, value)
    return output, (query, key, value, mask, output, sums)


@functools.partial(jax.jit, static_argnums=0)
def _backward(offset, kept, gradient):
    query, key, value, mask, output, sums = kept
    blocks = _Blocks(query.shape[-2], key.shape[-2], mask, offset)
    return *blocks.backward(query, key, value, output, sums, gradient), None


attend_in_blocks.defvjp(_forward, _backward)


class _Blocks:
    """Blockwise attention, and which queries see which keys."""

    def __init__(self, queries, keys, mask, offset):
        self.queries, self.keys, self.offset = queries, keys, offset
        self.rows, self.columns = min(QUERIES, queries), min(KEYS, keys)
        self.high, self.wide = -(-queries // self.rows), -(-keys // self.columns)
        self.mask = mask
        if mask is not None and mask.shape[-2] != 1:
            self.mask = _padded(self.mask, self.high * self.rows)
        if mask is not None and mask.shape[-1] != 1:
            self.mask = _padded(self.mask, self.wide * self.columns, axis=-1)

    def forward(self, query, key, value):
        """(output, logarithm of the sum of exponentials of each query's logits)."""
        query = _padded(query, self.high * self.rows)
        key, value = (_padded(x, self.wide * self.columns) for x in (key, value))

        def row(i, found):
            q = _block(query, i, self.rows)

            def add(j, state):
                most, total, output = state
                v = _block(value, j, self.columns)
                logits = self._logits(q, _block(key, j, self.columns), i, j)
                more = jnp.maximum(most, logits.max(-1, keepdims=True))
                # A masked logit gives exactly 0, also for a query without visible keys so far.
                weights = jnp.exp(logits - jnp.where(more > MASKED, more, 0.0))
                shrink = jnp.exp(most - more)
                part = _product("...ts,...sv->...tv", weights.astype(v.dtype), v)
                return (
                    more,
                    total * shrink + weights.sum(-1, keepdims=True),
                    output * shrink + part,
                )

            none = jnp.zeros((*q.shape[:-1], 1), "float32")
            start = none + MASKED, none, jnp.zeros((*q.shape[:-1], v_width), "float32")
            most, total, output = lax.fori_loop(0, self._last(i), add, start)
            some = total > 0
            # Without visible keys: so large that all weights of the query are 0.
            sums = jnp.where(some, most + jnp.log(jnp.where(some, total, 1.0)), -MASKED)
            output = jnp.where(some, output / jnp.where(some, total, 1.0), 0.0)
            return [_written(x, new, i) for x, new in zip(found, (output, sums), strict=True)]

        v_width = value.shape[-1]
        start = [
            jnp.zeros((*query.shape[:-1], v_width), value.dtype),
            jnp.zeros((*query.shape[:-1], 1), "float32"),
        ]
        return [x[..., : self.queries, :] for x in lax.fori_loop(0, self.high, row, start)]

    def backward(self, query, key, value, output, sums, gradient):
        """Gradients of query, key and value."""
        # Subtracted from the gradients of each query's weights, as in the gradient of a softmax.
        means = (output.astype("float32") * gradient.astype("float32")).sum(-1, keepdims=True)
        high, wide = self.high * self.rows, self.wide * self.columns
        query, gradient, sums, means = (_padded(x, high) for x in (query, gradient, sums, means))
        key, value = _padded(key, wide), _padded(value, wide)

        def column(j, found):
            k, v = _block(key, j, self.columns), _block(value, j, self.columns)

            def add(i, state):
                of_query, of_key, of_value = state
                q, g = _block(query, i, self.rows), _block(gradient, i, self.rows)
                weights = jnp.exp(self._logits(q, k, i, j) - _block(sums, i, self.rows))
                change = _product("...tv,...sv->...ts", g, v) - _block(means, i, self.rows)
                change = (weights * change).astype(q.dtype)
                part = _block(of_query, i, self.rows)
                part += _product("...ts,...sk->...tk", change, k)
                of_key += _product("...ts,...tk->...sk", change, q)
                of_value += _product("...ts,...tv->...sv", weights.astype(g.dtype), g)
                return _written(of_query, part, i), of_key, of_value

            of_query, *of_keys = found
            zeros = [jnp.zeros(x.shape, "float32") for x in (k, v)]
            of_query, *new = lax.fori_loop(self._first(j), self.high, add, (of_query, *zeros))
            return of_query, *(_written(x, y, j) for x, y in zip(of_keys, new, strict=True))

        start = jnp.zeros(query.shape, "float32"), jnp.zeros_like(key), jnp.zeros_like(value)
        of_query, of_key, of_value = lax.fori_loop(0, self.wide, column, start)
        return (
            of_query[..., : self.queries, :].astype(query.dtype),
            of_key[..., : self.keys, :],
            of_value[..., : self.keys, :],
        )

    def _logits(self, q, k, i, j):
        """float32 logits of a block."""
        logits = _product("...tk,...sk->...ts", q, k)
        if self.offset is None and self.mask is None and self.keys % self.columns == 0:
            return logits
        rows = (i * self.rows + jnp.arange(self.rows))[:, None]
        columns = j * self.columns + jnp.arange(self.columns)
        seen = columns < self.keys
        if self.offset is not None:
            seen &= columns <= rows + self.offset
        if self.mask is not None:
            part = self.mask
            part = part if part.shape[-2] == 1 else _block(part, i, self.rows)
            seen &= part if part.shape[-1] == 1 else _block(part, j, self.columns, axis=-1)
        return jnp.where(seen, logits, MASKED)

    def _last(self, i):
        """Number of key blocks that a block of queries may see."""
        if self.offset is None:
            return self.wide
        seen = (i + 1) * self.rows + self.offset
        return jnp.clip(-(-seen // self.columns), 0, self.wide)

    def _first(self, j):
        """First block of queries that may see a block of keys."""
        if self.offset is None:
            return 0
        return jnp.clip((j * self.columns - self.offset) // self.rows, 0, self.high)


def _product(equation, x, y):
    return jnp.einsum(equation, x, y, preferred_element_type="float32")


def _padded(x, length, axis=-2):
    missing = length - x.shape[axis]
    if not missing:
        return x
    added = [(0, 0)] * x.ndim
    added[axis] = 0, missing
    return jnp.pad(x, added)


def _block(x, number, length, axis=-2):
    return lax.dynamic_slice_in_dim(x, number * length, length, axis)


def _written(x, block, number):
    """x with a block of rows replaced."""
    start = number * block.shape[-2]
    return lax.dynamic_update_slice_in_dim(x, block.astype(x.dtype), start, -2)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5, 7))
def linear_cross_entropy(
    labels, hidden, table, bias, label_smoothing, most, teacher=None, distillation=None
):
    """See `linear_cross_entropy` on TensorFlow."""
    return _losses_forward(
        labels, hidden, table, bias, label_smoothing, most, teacher, distillation
    )[0]


def _losses_forward(labels, hidden, table, bias, label_smoothing, most, teacher, distillation):
    def block(given):
        labels, hidden, *rows = given
        taught = _teacher_logits(teacher, *rows)
        return block_statistics(
            labels, hidden @ table.T, bias, label_smoothing, taught, distillation
        )

    rows = labels.shape[0]
    count = block_count(rows, table.shape[0], most)
    blocks = labels, hidden, *(teacher or ())[:1]
    found = lax.map(block, tuple(_in_blocks(x, count) for x in blocks))
    found = jnp.moveaxis(found, 1, 0).reshape(found.shape[1], -1)[:, :rows]
    return found, (labels, hidden, table, bias, teacher, found)


def _losses_backward(label_smoothing, most, distillation, kept, upstream):
    labels, hidden, table, bias, teacher, statistics = kept
    count = block_count(labels.shape[0], table.shape[0], most)

    def add(sums, given):
        labels, hidden, statistics, upstream, *rows = given
        change = block_gradient(
            labels,
            hidden @ table.T,
            bias,
            statistics.T,
            upstream,
            label_smoothing,
            _teacher_logits(teacher, *rows),
            distillation,
        )
        of_table, of_bias = sums
        of_bias += change.sum(0)
        change = change.astype(hidden.dtype)
        return (of_table + (change.T @ hidden).astype("float32"), of_bias), change @ table

    sums = jnp.zeros(table.shape, "float32"), jnp.zeros(table.shape[:1], "float32")
    blocks = labels, hidden, statistics.T, upstream[0], *(teacher or ())[:1]
    blocks = [_in_blocks(x, count) for x in blocks]
    (of_table, of_bias), of_hidden = lax.scan(add, sums, blocks)
    of_hidden = of_hidden.reshape(-1, hidden.shape[1])[: hidden.shape[0]]
    of_bias = None if bias is None else of_bias
    return None, of_hidden, of_table.astype(table.dtype), of_bias, None


def _teacher_logits(teacher, hidden=None):
    """Logits of a teacher for a block of rows and their bias; None without a teacher."""
    return None if teacher is None else (hidden @ teacher[1].T, teacher[2])


linear_cross_entropy.defvjp(_losses_forward, _losses_backward)


def _in_blocks(x, count):
    """(R, ...) -> (count, R / count, ...), padded with zeros."""
    size = -(-x.shape[0] // count)
    x = jnp.pad(x, [(0, count * size - x.shape[0]), *[(0, 0)] * (x.ndim - 1)])
    return x.reshape(count, size, *x.shape[1:])


def dropout(x, rate, key):
    """See `dropout` on TensorFlow, with the same mask."""
    number = lax.iota("uint32", x.size).reshape(x.shape)
    kept = keep_mask(number, hash_words(key), rate)
    return jnp.where(kept, x * jnp.asarray(1.0 / (1.0 - rate), x.dtype), jnp.zeros((), x.dtype))


def keep_mask(number, words, rate):
    """Random booleans, each True with probability 1 - rate; see `_keep_mask` on TensorFlow.

    Args:
        number: uint32 `(...)`, the index of each value.
        words: Result of `hash_words`.
        rate: Dropout rate, in [0, 1).
    """
    drawn = _mix(_mix(number * jnp.uint32(0x9E3779B9) + words[0]) + words[1])
    return drawn >= jnp.uint32(round(rate * 2**32))


def hash_words(key):
    """Two uint32 scalars that are unrelated for keys that differ by 1."""
    key = jnp.asarray(key).astype("uint32")
    first = _mix(_mix(key[0] + jnp.uint32(0x9E3779B9)) ^ key[1])
    return first, _mix(first + key[1])


def _mix(x):
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ (x >> jnp.uint32(shift))) * jnp.uint32(factor)
    return x ^ (x >> jnp.uint32(16))


def remat_except_matmuls(function):
    """Makes the gradient of the function store results of matrix products and recompute the rest.

    Recomputing a bias addition and an activation takes less time than reading their results from
    memory.
    """
    # A new function each time: JAX caches the trace of a known one, including its weights.
    return jax.checkpoint(lambda x: function(x), policy=jax.checkpoint_policies.dots_saveable)


def rematerialize(function, inputs, weights, states, options):
    """See `rematerialize` on TensorFlow."""
    return jax.checkpoint(lambda inputs, weights: function(inputs, weights, states, options))(
        inputs, weights
    )


def has_short_kernel():
    """Whether the kernel of `jax_gpu` can run: on a single GPU with enough shared memory."""
    devices = jax.devices()
    capability = str(getattr(devices[0], "compute_capability", "0"))
    # The compiler cannot partition a kernel over several devices, and `keras.device("cpu")` selects
    # no GPU. Multiprocessors of architectures other than A100, H100 and B200 have less memory.
    chosen = jax.config.jax_default_device
    return (
        jax.default_backend() == "gpu"
        and len(devices) == 1
        and capability in ("8.0", "9.0", "10.0")
        and getattr(chosen, "platform", chosen) != "cpu"
        and _triton()
    )


@functools.cache
def _triton():
    """Whether this version of JAX has the experimental API in which the kernel is written."""
    try:
        from jax.experimental.pallas import triton
    except ImportError:
        return False
    return hasattr(triton, "CompilerParams") and hasattr(triton, "dot")
