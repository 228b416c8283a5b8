"""Blockwise attention, dropout and cross-entropy on TensorFlow.

Attention memory grows with the length, not with its square: Rabe & Staats, Self-attention Does Not
Need O(n^2) Memory, 2021. The gradient is as in Dao et al., FlashAttention, 2022, algorithm 4:
logits are recomputed block by block from the logarithm of their sum of exponentials. Loops process
one block at a time, as parallel iterations would hold many blocks in memory.
"""

import tensorflow as tf

from keras_attn.ops.block_losses import block_count, block_gradient, block_statistics
from keras_attn.ops.kernels import tensorflow_graphs as graphs
from keras_attn.ops.kernels import tensorflow_replicas as replicas  # noqa: F401
from keras_attn.ops.kernels import tensorflow_variables as variables  # noqa: F401
from keras_attn.ops.kernels.tensorflow_graphs import inference_function as inference_function
from keras_attn.ops.kernels.tensorflow_rematerialization import rematerialize as rematerialize
from keras_attn.ops.masks import MASKED

# Queries and keys per block. With 8 heads the logits of a block take 4 MB.
QUERIES, KEYS = 256, 512
COUNTS = 1 << 16  # the size of a mask of unknown shape is rounded up to a multiple of this


@graphs.traced_once
def attend_in_blocks(query, key, value, mask=None, causal_offset=None):
    """`softmax(query @ key^T) @ value`, with at most one block of weights in memory at a time.

    Args:
        query: `(..., T, K)`, already scaled.
        key: `(..., S, K)`.
        value: `(..., S, V)`. Lengths, K and V are static.
        mask: Boolean `(..., T or 1, S or 1)`, True where a query may attend to a key, or None.
        causal_offset: Integer: query i sees keys up to i plus this offset; None: all keys.

    Returns:
        `(..., T, V)`; 0 for a query that sees no key.
    """
    blocks = _Blocks(query.shape[-2], key.shape[-2], mask, causal_offset)

    @tf.custom_gradient
    def attend(query, key, value):
        output, sums = blocks.forward(query, key, value)
        return output, lambda gradient: blocks.backward(query, key, value, output, sums, gradient)

    return attend(query, key, value)


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

        def row(i):
            q = _block(query, i, self.rows)

            def add(j, most, total, output):
                v = _block(value, j, self.columns)
                logits = self._logits(q, _block(key, j, self.columns), i, j)
                more = tf.maximum(most, tf.reduce_max(logits, -1, keepdims=True))
                # A masked logit gives exactly 0, also for a query without visible keys so far.
                weights = tf.exp(logits - tf.where(more > MASKED, more, 0.0))
                shrink = tf.exp(most - more)
                part = tf.cast(tf.matmul(tf.cast(weights, v.dtype), v), tf.float32)
                return (
                    j + 1,
                    more,
                    total * shrink + tf.reduce_sum(weights, -1, keepdims=True),
                    output * shrink + part,
                )

            like = tf.cast(q, tf.float32)
            one = tf.zeros_like(like[..., :1])
            start = one + MASKED, one, one * tf.zeros(value.shape[-1])
            most, total, output = _loop(0, self._last(i), add, start)
            # Without visible keys: so large that all weights of the query are 0.
            sums = tf.where(total > 0, most + tf.math.log(total), -MASKED)
            return tf.cast(tf.math.divide_no_nan(output, total), value.dtype), sums

        output, sums = _rows(self.high, row, (value.dtype, tf.float32))
        return output[..., : self.queries, :], sums[..., : self.queries, :]

    def backward(self, query, key, value, output, sums, gradient):
        """Gradients of query, key and value."""
        # Subtracted from the gradients of each query's weights, as in the gradient of a softmax.
        means = tf.reduce_sum(
            tf.cast(output, tf.float32) * tf.cast(gradient, tf.float32), -1, keepdims=True
        )
        high, wide = self.high * self.rows, self.wide * self.columns
        query, gradient, sums, means = (_padded(x, high) for x in (query, gradient, sums, means))
        key, value = _padded(key, wide), _padded(value, wide)

        def key_row(j, of_query):
            k, v = _block(key, j, self.columns), _block(value, j, self.columns)

            def add(i, of_query, of_key, of_value):
                q, g = _block(query, i, self.rows), _block(gradient, i, self.rows)
                weights = tf.exp(self._logits(q, k, i, j) - _block(sums, i, self.rows))
                change = tf.cast(tf.matmul(g, v, transpose_b=True), tf.float32)
                change = tf.cast(weights * (change - _block(means, i, self.rows)), q.dtype)
                weights = tf.cast(weights, g.dtype)
                part = of_query.read(i) + tf.cast(tf.matmul(change, k), tf.float32)
                of_key += tf.cast(tf.matmul(change, q, transpose_a=True), tf.float32)
                of_value += tf.cast(tf.matmul(weights, g, transpose_a=True), tf.float32)
                return i + 1, of_query.write(i, part), of_key, of_value

            zeros = [tf.zeros_like(tf.cast(x, tf.float32)) for x in (k, v)]
            of_query, *found = _loop(self._first(j), self.high, add, (of_query, *zeros))
            return of_query, [tf.cast(x, key.dtype) for x in found]

        def column(j, of_query, of_key, of_value):
            of_query, (k, v) = key_row(j, of_query)
            return j + 1, of_query, of_key.write(j, k), of_value.write(j, v)

        of_query = tf.TensorArray(tf.float32, self.high, clear_after_read=False)
        zeros = tf.zeros_like(tf.cast(_block(query, 0, self.rows), tf.float32))
        of_query = _loop(
            0, self.high, lambda i, array: (i + 1, array.write(i, zeros)), (of_query,)
        )[0]
        arrays = [tf.TensorArray(x.dtype, self.wide) for x in (key, value)]
        of_query, of_key, of_value = (
            _joined(array.stack()) for array in _loop(0, self.wide, column, (of_query, *arrays))
        )
        return (
            tf.cast(of_query[..., : self.queries, :], query.dtype),
            of_key[..., : self.keys, :],
            of_value[..., : self.keys, :],
        )

    def _logits(self, q, k, i, j):
        """float32 logits of a block."""
        if q.dtype == tf.float16:  # products may exceed 65,504
            q, k = tf.cast(q, tf.float32), tf.cast(k, tf.float32)
        logits = tf.cast(tf.matmul(q, k, transpose_b=True), tf.float32)
        if self.offset is None and self.mask is None and self.keys % self.columns == 0:
            return logits
        rows = (i * self.rows + tf.range(self.rows))[:, None]
        columns = (j * self.columns + tf.range(self.columns))[None]
        seen = columns < self.keys
        if self.offset is not None:
            seen &= columns <= rows + self.offset
        if self.mask is not None:
            part = self.mask
            part = part if part.shape[-2] == 1 else _block(part, i, self.rows)
            seen &= part if part.shape[-1] == 1 else _block(part, j, self.columns, axis=-1)
        return tf.where(seen, logits, MASKED)

    def _last(self, i):
        """Number of key blocks that a block of queries may see."""
        if self.offset is None:
            return self.wide
        seen = (i + 1) * self.rows + self.offset
        return tf.clip_by_value(-(-seen // self.columns), 0, self.wide)

    def _first(self, j):
        """First block of queries that may see a block of keys."""
        if self.offset is None:
            return 0
        return tf.clip_by_value((j * self.columns - self.offset) // self.rows, 0, self.high)


def _padded(x, length, axis=-2):
    missing = length - x.shape[axis]
    if not missing:
        return x
    added = [[0, 0]] * len(x.shape)
    added[axis] = [0, missing]
    return tf.pad(x, added)


def _block(x, number, length, axis=-2):
    axis += len(x.shape)
    # Not x[a:b], whose length is unknown to XLA.
    begin, size = [0] * len(x.shape), tf.unstack(tf.shape(x))
    begin[axis], size[axis] = number * length, length
    found = tf.slice(x, begin, size)
    return tf.ensure_shape(found, (*x.shape[:axis], length, *x.shape[axis + 1 :]))


def _loop(first, last, body, start):
    """The state after `body(number, *state)` for the numbers from first to last, exclusive."""
    return tf.while_loop(
        lambda number, *_: number < last,
        body,
        (tf.constant(first) if isinstance(first, int) else first, *start),
        parallel_iterations=1,
    )[1:]


def _rows(count, row, dtypes):
    """The results of `row` for 0, 1, …, concatenated along the second-to-last axis."""
    arrays = [tf.TensorArray(dtype, count) for dtype in dtypes]
    arrays = _loop(
        0,
        count,
        lambda i, *arrays: (
            i + 1,
            *(array.write(i, x) for array, x in zip(arrays, row(i), strict=True)),
        ),
        arrays,
    )
    return [_joined(array.stack()) for array in arrays]


def _joined(stacked):
    """(N, ..., T, K) -> (..., N T, K)."""
    count, *leading, length, width = stacked.shape
    order = [*range(1, len(leading) + 1), 0, len(leading) + 1, len(leading) + 2]
    shape = tf.concat([tf.shape(stacked)[1:-2], [count * length, width]], 0)
    return tf.reshape(tf.transpose(stacked, order), shape)


def dropout(x, rate, key):
    """Dropout whose mask is a hash of the index of each value and the key.

    Args:
        x: Floats `(...)`.
        rate: Dropout rate, in [0, 1).
        key: Two 32-bit integers.

    Returns:
        `x / (1 - rate)` where the mask is True, else 0: `(...)`.
    """
    key = tf.cast(key, tf.uint32)
    # A static shape is not a tensor that would be copied back from a GPU.
    if x.shape.is_fully_defined():
        keep = _keep_mask(x.shape.num_elements(), rate, key)
    else:
        # Rounded up: each size is compiled, and batches of varying length have many sizes.
        count = tf.size(x)
        keep = _keep_mask((count + COUNTS - 1) // COUNTS * COUNTS, rate, key)[:count]
    keep = tf.reshape(keep, tf.shape(x))
    return tf.where(keep, x * tf.cast(1.0 / (1.0 - rate), x.dtype), tf.zeros((), x.dtype))


# Compiled even if the step is not: one pass over memory instead of ten.
@tf.function(jit_compile=True, autograph=False, reduce_retracing=True)
def _keep_mask(count, rate, key):
    """Random booleans `(count,)`, each True with probability 1 - rate.

    The multipliers and shifts come from Chris Wellons's hash lowbias32 (hash-prospector):
    flipping one bit of the input flips each bit of the result with probability one half.
    """
    # Keys that differ by 1, as for consecutive steps, must give unrelated masks.
    first = _mix(_mix(key[0] + 0x9E3779B9) ^ key[1])
    second = _mix(first + key[1])
    number = tf.cast(tf.range(count), tf.uint32)
    drawn = _mix(_mix(number * 0x9E3779B9 + first) + second)
    return drawn >= tf.constant(round(rate * 2**32), tf.uint32)


def _mix(x):
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ tf.bitwise.right_shift(x, tf.constant(shift, tf.uint32))) * factor
    return x ^ tf.bitwise.right_shift(x, tf.constant(16, tf.uint32))


@graphs.traced_once
def linear_cross_entropy(
    labels, hidden, table, bias, label_smoothing, most, teacher=None, distillation=None
):
    """Loss statistics of the logits `hidden @ table^T + bias`; only the losses have a gradient.

    Args:
        labels: Integers `(R,)`.
        hidden: `(R, D)`; R may be unknown.
        table: `(V, D)`.
        bias: float32 `(V,)`, or None.
        label_smoothing: A float.
        most: Number of logits per block.
        teacher: `hidden` `(R, F)`, `table` `(V, F)` and `bias` of a teacher, or None.
        distillation: See `block_statistics`.

    Returns:
        float32 `(5, R)` or `(8, R)`, see `block_statistics`.
    """

    @tf.custom_gradient
    def function(hidden, table, *bias):
        blocks = _LossBlocks(
            labels, hidden, table, *bias or [None], label_smoothing, most, teacher, distillation
        )
        statistics, products = blocks.forward()

        def gradient(upstream):
            found = blocks.backward(statistics, products, upstream[0])
            return found[: 2 + len(bias)]

        return blocks.joined(statistics), gradient

    return function(hidden, table, *[] if bias is None else [bias])


class _LossBlocks:
    """Losses in blocks of equal size; the logits of the last are stored for the gradient.

    If the number of rows is unknown, the number and size of blocks are computed at run time.
    """

    def __init__(
        self, labels, hidden, table, bias, label_smoothing, most, teacher=None, distillation=None
    ):
        self.table, self.bias, self.label_smoothing = table, bias, label_smoothing
        self.distillation = distillation
        self.rows = rows = hidden.shape[0]
        if rows is None:
            self.rows = tf.shape(hidden)[0]
            rows = tf.maximum(self.rows, 1)  # blocks are not empty, for the update of a row
            logits = tf.cast(rows, tf.int64) * table.shape[0]
            self.last = tf.minimum(rows, tf.cast((logits + most - 1) // most, tf.int32)) - 1
        else:
            self.last = block_count(rows, table.shape[0], most) - 1
        self.size = (rows + self.last) // (self.last + 1)
        self.labels, self.hidden = self._in_blocks(labels), self._in_blocks(hidden)
        self.teacher = teacher and (self._in_blocks(teacher[0]), *teacher[1:])

    def forward(self):
        """(statistics `(blocks, 5 or 8, size)`, products of the last block)."""
        products = self._products(self.last)
        last = self._statistics(self.last, products)
        if self._is_one():
            return last[None], products
        # No TensorArray: tf2onnx supports no write to it after a loop.
        (found,) = _loop(
            0,
            self.last,
            lambda i, found: (
                i + 1,
                tf.tensor_scatter_nd_update(
                    found, [[i]], self._statistics(i, self._products(i))[None]
                ),
            ),
            (tf.tile(last[None], (self.last + 1, 1, 1)),),
        )
        return found, products

    def backward(self, statistics, products, upstream):
        """Gradients of hidden, table and bias."""
        upstream = self._in_blocks(upstream)

        def gradients(i, products):
            change = self._change(i, products, statistics[i], upstream[i])
            of_bias = tf.reduce_sum(change, axis=0)
            change = tf.cast(change, self.hidden.dtype)
            return (
                tf.matmul(change, self.table),
                tf.cast(tf.matmul(change, self.hidden[i], transpose_a=True), tf.float32),
                of_bias,
            )

        of_hidden, of_table, of_bias = gradients(self.last, products)
        if not self._is_one():
            last = of_hidden
            found = tf.TensorArray(last.dtype, self.last + 1, element_shape=last.shape)

            def add(i, found, of_table, of_bias):
                part, of_table_here, of_bias_here = gradients(i, self._products(i))
                return i + 1, found.write(i, part), of_table + of_table_here, of_bias + of_bias_here

            found, of_table, of_bias = _loop(0, self.last, add, (found, of_table, of_bias))
            of_hidden = found.write(self.last, last).stack()
        of_hidden = tf.reshape(of_hidden, (-1, self.table.shape[1]))[: self.rows]
        return of_hidden, tf.cast(of_table, self.table.dtype), of_bias

    def joined(self, statistics):
        """(blocks, 5, size) -> (5, R), or the same for 8."""
        count = statistics.shape[1]
        return tf.reshape(tf.transpose(statistics, (1, 0, 2)), (count, -1))[:, : self.rows]

    def _is_one(self):
        return isinstance(self.last, int) and not self.last

    def _in_blocks(self, x):
        missing = (self.last + 1) * self.size - self.rows
        if not self._is_one():
            x = tf.pad(x, [[0, missing], *[[0, 0]] * (len(x.shape) - 1)])
        return tf.reshape(x, (self.last + 1, self.size, *x.shape[1:]))

    def _products(self, i):
        """Logits without bias of a block, and of the teacher with its bias, or None."""
        own = tf.matmul(self.hidden[i], self.table, transpose_b=True)
        if self.teacher is None:
            return own, None
        hidden, table, bias = self.teacher
        return own, (tf.matmul(hidden[i], table, transpose_b=True), bias)

    def _statistics(self, i, products):
        products, teacher = products
        compiled = graphs.worth_compiling(products)
        function = _compiled_statistics if compiled else block_statistics
        return function(
            self.labels[i],
            products,
            self.bias,
            self.label_smoothing,
            teacher,
            self.distillation,
        )

    def _change(self, i, products, statistics, upstream):
        products, teacher = products
        compiled = graphs.worth_compiling(products)
        function = _compiled_gradient if compiled else block_gradient
        return function(
            self.labels[i],
            products,
            self.bias,
            statistics,
            upstream,
            self.label_smoothing,
            teacher,
            self.distillation,
        )


_compiled_statistics, _compiled_gradient = (
    tf.function(function, jit_compile=True, autograph=False)
    for function in (block_statistics, block_gradient)
)
